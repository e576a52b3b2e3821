"""Contract of objects: leases, events, certificate requests, pods and their deletion."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiclient import AlreadyExists, ObjectSelector, PatchKind
from pykubelet.apiclient.certificates import client_template
from pykubelet.apiclient.certificates.request import signing_request
from pykubelet.apiclient.resources import CONFIG_MAPS, EVENTS, LEASES, PODS, SIGNING_REQUESTS
from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.models.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from pykubelet.models.coordination_v1 import Lease, LeaseSpec
from pykubelet.models.core_v1 import Event, ObjectReference
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import micro_time_from_unix
from tests.contract.api.build import bound, config_map, pod
from tests.contract.api.server import Server


async def test_a_lease_is_renewed_by_its_version(server: Server) -> None:
    meta = ObjectMeta(name="n7")
    spec = LeaseSpec(holder_identity="n7", lease_duration_seconds=40, renew_time=micro_time_from_unix(1.5))
    lease = Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=meta, spec=spec)
    target = LEASES.at("kube-node-lease", "n7")
    made = await server.client.create(LEASES.all("kube-node-lease"), lease)
    renewed = await server.client.update(target, made)
    assert renewed.spec == made.spec
    await server.client.patch(target, {"spec": {"leaseDurationSeconds": 41}}, PatchKind.MERGE)
    with pytest.raises(Conflict):
        await server.client.update(target, made)
    await server.client.delete(target)


async def test_event_is_created_and_counted(server: Server) -> None:
    about = ObjectReference(kind="Pod", namespace="default", name="web", uid="u", field_path="spec.containers{c}")
    meta = ObjectMeta(name="web.1", namespace="default")
    event = Event(
        api_version="v1", kind="Event", metadata=meta, involved_object=about, reason="R", count=1, type="Normal"
    )
    await server.client.create(EVENTS.all("default"), event)
    target = EVENTS.at("default", "web.1")
    counted = await server.client.patch(target, {"count": 2, "message": "m"})
    assert (counted.count, counted.message, counted.reason) == (2, "m", "R")
    select = ObjectSelector(fields="involvedObject.name=web,reason=R")
    assert [each.count for each in (await server.client.list(EVENTS.all("default"), select)).items] == [2]
    await server.client.delete(target)
    with pytest.raises(NotFound):
        await server.client.patch(target, {"count": 3})


async def test_certificate_is_requested_once(server: Server) -> None:
    template = client_template("n7")
    private = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    request = signing_request(private.private_bytes(*form), template)
    value = CertificateSigningRequest(
        api_version="certificates.k8s.io/v1",
        kind="CertificateSigningRequest",
        metadata=ObjectMeta(name="node-csr-x"),
        spec=CertificateSigningRequestSpec(request=request, signer_name=template.signer, usages=template.usages),
    )
    made = await server.client.create(SIGNING_REQUESTS.all(), value)
    assert made.spec.request == request and not made.status.certificate and not made.status.conditions
    with pytest.raises(AlreadyExists):
        await server.client.create(SIGNING_REQUESTS.all(), value)
    found = await server.client.list(SIGNING_REQUESTS.all(), ObjectSelector(fields="metadata.name=node-csr-x"))
    assert [each.metadata.uid for each in found.items] == [made.metadata.uid]
    await server.client.delete(SIGNING_REQUESTS.at("", "node-csr-x"))


async def test_created_pod_has_the_fields_that_the_agent_relies_on(server: Server) -> None:
    made = await server.client.create(PODS.all("default"), pod("fresh"))
    assert (made.status.phase, made.status.qos_class) == ("Pending", "BestEffort")
    assert made.spec.termination_grace_period_seconds == 30 and not made.spec.node_name
    # An update of the object does not change its status, and vice versa.
    await server.client.patch(PODS.at("default", "fresh"), {"status": {"phase": "Failed"}})
    target = PODS.at("default", "fresh", "status")
    found = await server.client.patch(target, {"spec": {"activeDeadlineSeconds": 5}, "status": {"message": "m"}})
    assert (found.status.phase, found.status.message, found.spec.active_deadline_seconds) == ("Pending", "m", None)
    # It is not bound to a node, so it is deleted at once.
    await server.client.delete(PODS.at("default", "fresh"), grace_seconds=20)
    with pytest.raises(NotFound):
        await server.client.get(PODS.at("default", "fresh"))


async def test_a_pod_that_has_ended_is_deleted_at_once(server: Server) -> None:
    await bound(server.client, "ended")
    await server.client.patch(PODS.at("default", "ended", "status"), {"status": {"phase": "Succeeded"}})
    await server.client.delete(PODS.at("default", "ended"), grace_seconds=20)
    with pytest.raises(NotFound):
        await server.client.get(PODS.at("default", "ended"))


async def test_invalid_requests_are_refused(server: Server) -> None:
    with pytest.raises(Invalid):
        await server.client.create(CONFIG_MAPS.all("default"), config_map(""))
    made = await server.client.create(CONFIG_MAPS.all("default"), config_map("whole"))
    with pytest.raises(Conflict):
        await server.client.patch(
            CONFIG_MAPS.at("default", "whole"), {"metadata": {"resourceVersion": "1"}}, PatchKind.MERGE
        )
    assert (await server.client.get(CONFIG_MAPS.at("default", "whole"))).metadata.uid == made.metadata.uid
    await server.client.delete(CONFIG_MAPS.at("default", "whole"))
