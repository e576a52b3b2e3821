"""Features and faults that need the fake API server: the real one is too old, and does not fail on demand."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pykubelet.models.core_v1 import Pod, PodCondition
from pykubelet.models.quantity import to_bytes
from pykubelet.testing.agent import container_status, is_ready, wait_for
from pykubelet.testing.cluster_ca import ClusterAuthority
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.thread import FakeApiThread
from pykubelet.testing.kubeapi import Json
from tests.cgroup_view import cgroup_of
from tests.cluster.cluster_node import NODE, Cluster
from tests.cluster.storage import DRIVER, Storage
from tests.kubectl import Kubectl, needs_kubectl
from tests.manifests import BUSYBOX, container, lingering, mount, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.serves]


def test_a_sidecar_and_the_newer_fields_of_the_status(newer: Cluster) -> None:
    sidecar = container("proxy", restartPolicy="Always")
    newer.run(pod("newer", initContainers=[sidecar, container("setup", sh("exit 0"))]))
    found = newer.ready("newer")
    statuses = {each.name: each for each in found.status.init_container_statuses}
    assert statuses["proxy"].started and statuses["proxy"].ready
    assert [each.ip for each in found.status.host_ips] == [newer.address]
    assert {c.type for c in found.status.conditions} >= {"PodReadyToStartContainers", "Ready"}
    newer.delete("newer")
    node = newer.api.node(NODE)
    assert node is not None and node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_an_ephemeral_container_joins_a_running_pod(newer: Cluster) -> None:
    newer.run(pod("debugged", container(command=serving("echo main >/tmp/here"))))
    before = newer.ready("debugged")
    look = container("look", sh("cat /proc/1/root/tmp/here; sleep 1"), targetContainerName="main")
    newer.api.strategic(
        "/api/v1/namespaces/default/pods/debugged/ephemeralcontainers", {"spec": {"ephemeralContainers": [look]}}
    )
    found = newer.until("debugged", _ephemeral_ended)
    (status,) = found.status.ephemeral_container_statuses
    assert status.state is not None and status.state.terminated is not None
    assert (status.name, status.state.terminated.exit_code) == ("look", 0)
    assert newer.agent.cli("logs", "debugged", "look").stdout == "main\n"
    assert is_ready(found)
    assert container_status(found).container_id == container_status(before).container_id
    assert container_status(found).restart_count == 0
    newer.delete("debugged")


@needs_kubectl
def test_kubectl_debug_runs_a_container_that_sees_the_target(
    newer: Cluster, fake: FakeApiThread, tmp_path: Path
) -> None:
    # kubectl expects the API server to have defaulted the security context.
    newer.run(pod("broken", container(command=serving("echo here >/tmp/mark")), securityContext={}))
    newer.ready("broken")
    kubectl = Kubectl(fake.kubeconfig(tmp_path / "user.conf"), newer.agent.log_tail)
    look = sh("cat /proc/1/root/tmp/mark; grep CapEff /proc/self/status")
    where = ["broken", "--image", BUSYBOX, "--container", "look", "--target", "main", "--attach=false"]
    kubectl("debug", *where, "--profile=general", "--", *look)
    newer.until("broken", _ephemeral_ended)
    shown = newer.agent.cli("logs", "broken", "look").stdout.split()
    # This profile of `kubectl debug` grants SYS_PTRACE, which reading another container's file system needs.
    assert shown[0] == "here" and int(shown[2], 16) & 1 << 19
    newer.delete("broken")


def _ephemeral_ended(pod: Pod) -> bool:
    return any(each.state and each.state.terminated for each in pod.status.ephemeral_container_statuses)


def test_pod_starts_and_ends_despite_api_server_faults(newer: Cluster, fake: FakeApiThread) -> None:
    fake.fail(
        Fault("PATCH .*/pods/.*status", status=500, times=2),
        Fault("PATCH .*/pods/.*status", status=429, retry_after=1, times=2),
        Fault("PATCH .*/pods/.*status", drop=True, times=2),
        Fault("events", status=500, times=20),
        Fault("leases", status=429, retry_after=1, times=3),
        Fault("pods.*watch=true", truncate=True, times=2),
    )
    fake.break_watches()
    newer.run(pod("hardy"))
    newer.ready("hardy", 60.0)
    newer.api.delete_pod("hardy", 2)
    fake.fail(Fault("DELETE", status=503, times=2))
    newer.api.wait_gone("hardy", 60.0, newer.agent.log_tail)
    assert newer.api.node_condition(NODE)["status"] == "True"


def test_watches_that_are_slow_or_too_old_lose_nothing(newer: Cluster, fake: FakeApiThread) -> None:
    newer.run(pod("old"))
    before = newer.ready("old")
    # The watch breaks, the next one is slow and fails, and then its resource version has expired.
    fake.fail(Fault("pods.*watch=true", delay=4.0, status=500), Fault("pods.*watch=true", truncate=True))
    fake.break_watches()
    newer.run(pod("unseen"))
    newer.api.delete_pod("unseen", 0)
    newer.run(pod("new"))
    fake.compact()
    newer.ready("new", 60.0)
    after = newer.ready("old")
    assert container_status(after).container_id == container_status(before).container_id
    assert "watch expired; listing again resource=pods" in newer.agent.log.read_text()
    for name in ("old", "new"):
        newer.delete(name)


def test_undecodable_object_does_not_affect_others(newer: Cluster, fake: FakeApiThread) -> None:
    newer.run(pod("lives"))
    newer.ready("lives")
    fake.fail(Fault("GET /api/v1/pods.*watch=true", truncate=True), Fault("GET /api/v1/pods.*watch=true", corrupt=True))
    fake.break_watches()
    newer.run(pod("odd"))
    left_out = "undecodable object skipped"
    wait_for(lambda: left_out in newer.agent.log.read_text(), 30.0, newer.agent.log_tail)
    fake.fail()
    fake.break_watches()
    newer.run(pod("next"))
    newer.until("next", is_ready, 60.0)
    assert is_ready(newer.ready("lives"))
    for name in ("lives", "odd", "next"):
        newer.api.delete_pod(name, 1)
        newer.api.wait_gone(name, 60.0, newer.agent.log_tail)


# -- certificates and growing volumes: also run by hand against a 1.36 API server


_CERTIFICATES = "/apis/certificates.k8s.io/v1beta1"
_REQUESTS = f"{_CERTIFICATES}/namespaces/default/podcertificaterequests"


def _account(cluster: Cluster) -> None:
    if cluster.api.find("/api/v1/namespaces/default/serviceaccounts/default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        cluster.api.create("/api/v1/namespaces/default/serviceaccounts", account)


def _sign(cluster: Cluster, authority: ClusterAuthority) -> None:
    """Sign the certificate request of a pod, as a signer does."""

    def unsigned() -> list[Any]:
        return [
            each for each in cluster.api.get(_REQUESTS)["items"] if "certificateChain" not in each.get("status", {})
        ]

    wait_for(lambda: bool(unsigned()), 30.0, cluster.agent.log_tail)
    (request,) = unsigned()
    body = "\n".join(re.findall(".{1,64}", request["spec"]["stubPKCS10Request"]))
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"
    made = authority.sign(pem.encode(), timedelta(hours=1))
    shown = x509.load_pem_x509_certificate(made)
    times = [shown.not_valid_before_utc, shown.not_valid_before_utc + timedelta(minutes=30), shown.not_valid_after_utc]
    condition = {
        "type": "Issued",
        "status": "True",
        "reason": "Tested",
        "message": "m",
        "lastTransitionTime": _written(times[0]),
    }
    status = {
        **dict(zip(("notBefore", "beginRefreshAt", "notAfter"), map(_written, times), strict=True)),
        "certificateChain": made.decode(),
        "conditions": [condition],
    }
    cluster.api.merge(f"{_REQUESTS}/{request['metadata']['name']}/status", {"status": status})


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_pod_gets_certificate_and_trust_bundle(newer: Cluster) -> None:
    _account(newer)
    first, second = ClusterAuthority.make("first"), ClusterAuthority.make("second")
    bundles = f"{_CERTIFICATES}/clustertrustbundles"
    bundle = {"signerName": "example.com/ca", "trustBundle": first.certificate_pem.decode()}
    meta = {"name": "example.com:ca:1", "labels": {"for": "tests"}}
    kind = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
    newer.api.create(bundles, {**kind, "metadata": meta, "spec": bundle})
    trusted = {"signerName": "example.com/ca", "labelSelector": {"matchLabels": {"for": "tests"}}, "path": "ca.pem"}
    wanted = {"signerName": "example.com/pods", "keyType": "ECDSAP256", "credentialBundlePath": "own.pem"}
    sources = [{"clusterTrustBundle": trusted}, {"podCertificate": wanted}]
    volumes = [{"name": "certs", "projected": {"sources": sources}}]
    main = container(volumeMounts=[mount("certs", "/certs")])
    newer.run(pod("certified", main, volumes=volumes, serviceAccountName="default"))
    _sign(newer, first)
    newer.ready("certified")
    own = newer.agent.exec("certified", "cat /certs/own.pem").encode()
    key = serialization.load_pem_private_key(own, None)
    (certificate,) = x509.load_pem_x509_certificates(own)
    certificate.verify_directly_issued_by(first.certificate)
    assert key.public_key() == certificate.public_key()

    def trusts() -> list[x509.Name]:
        found = newer.agent.exec("certified", "cat /certs/ca.pem").encode()
        return [each.subject for each in x509.load_pem_x509_certificates(found)]

    assert trusts() == [first.certificate.subject]
    newer.api.merge(f"{bundles}/{meta['name']}", {"spec": {"trustBundle": second.certificate_pem.decode()}})
    wait_for(lambda: trusts() == [second.certificate.subject], 10.0, newer.agent.log_tail)
    newer.delete("certified")
    newer.api.delete(f"{bundles}/{meta['name']}")


def test_a_volume_grows_on_the_node(newer: Cluster, tmp_path: Path) -> None:
    newer.api.create(
        "/apis/storage.k8s.io/v1/csidrivers",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False},
        },
    )
    storage = Storage(newer, tmp_path)
    claim = "/api/v1/namespaces/default/persistentvolumeclaims/grown"
    try:
        storage.bind("grown", csi={"driver": DRIVER, "volumeHandle": "vol-9", "fsType": "ext4"})
        # The controller has expanded the storage, but not the file system.
        newer.api.merge("/api/v1/persistentvolumes/pv-grown", {"spec": {"capacity": {"storage": "3Mi"}}})
        sizes = {"storage": "3Mi"}
        status = {
            "capacity": {"storage": "1Mi"},
            "allocatedResources": sizes,
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        }
        newer.api.merge(f"{claim}/status", {"status": status})
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "grown"}}]
        newer.run(pod("growing", container(volumeMounts=[mount("data", "/data")]), volumes=volumes))
        newer.ready("growing", 60.0)
        storage.until(lambda: storage.calls("NodeExpandVolume"))
        (call,) = storage.calls("NodeExpandVolume")
        assert call["volume_id"] == "vol-9" and call["capacity_range"] == {"required_bytes": str(3 << 20)}
        storage.until(lambda: newer.api.get(claim)["status"]["capacity"] == sizes)
        assert not newer.api.get(claim)["status"].get("allocatedResourceStatuses")
        newer.delete("growing")
        storage.until(lambda: storage.calls("NodeUnstageVolume"))
    finally:
        storage.end()
        for path in (claim, "/api/v1/persistentvolumes/pv-grown", f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}"):
            newer.api.delete(path)


# -- in-place resize --------------------------------------------------------------------------------------------------


def _resources(cpu: str, memory: str) -> Json:
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


def _resize(cluster: Cluster, name: str, cpu: str, memory: str) -> None:
    containers = [{"name": "main", "resources": _resources(cpu, memory)}]
    cluster.api.strategic(f"/api/v1/namespaces/default/pods/{name}/resize", {"spec": {"containers": containers}})


def _conditions(pod: Pod) -> dict[str, PodCondition]:
    return {each.type: each for each in pod.status.conditions}


def _pending(pod: Pod) -> str:
    """The reason why a resize is pending; empty: none is."""
    return _conditions(pod).get("PodResizePending", PodCondition()).reason


def _has_size(cpu: str, memory: str) -> Callable[[Pod], bool]:
    """Wait until the pod runs with these limits and no resize is pending."""

    def holds(pod: Pod) -> bool:
        resources = container_status(pod).resources
        done = not _conditions(pod).keys() & {"PodResizePending", "PodResizeInProgress"}
        return done and resources is not None and resources.limits == {"cpu": cpu, "memory": memory}

    return holds


def test_running_pod_is_resized_in_place(newer: Cluster) -> None:
    eats = serving("x=$(head -c 30000000 /dev/zero | tr '\\0' a); touch /tmp/eaten")
    newer.run(pod("sized", container(command=eats, resources=_resources("100m", "64Mi"))))
    before = container_status(newer.ready("sized"))
    newer.agent.exec("sized", "while ! ls /tmp/eaten; do sleep 0.1; done")
    _resize(newer, "sized", "200m", "128Mi")
    found = newer.until("sized", _has_size("200m", "128Mi"))
    after, cgroup = container_status(found), cgroup_of(newer.agent, "sized")
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    assert after.allocated_resources == {"cpu": "200m", "memory": "128Mi"}
    assert found.status.resources is not None and found.status.resources.limits["memory"] == "128Mi"
    assert found.status.observed_generation == found.metadata.generation == 2
    assert (cgroup.cpu_quota, cgroup.memory_limit) == (20_000, 128 << 20)
    assert (cgroup.above().cpu_quota, cgroup.above().memory_limit) == (20_000, 128 << 20)
    _resize(newer, "sized", "100m", "16Mi")
    failed = newer.until("sized", lambda p: _conditions(p).get("PodResizeInProgress", PodCondition()).reason == "Error")
    condition = _conditions(failed)["PodResizeInProgress"]
    assert "memory limit (16777216) below current usage" in condition.message and condition.observed_generation == 3
    assert cgroup_of(newer.agent, "sized").memory_limit == 128 << 20
    assert container_status(failed).restart_count == 0
    _resize(newer, "sized", "100m", "100Mi")
    newer.until("sized", _has_size("100m", "100Mi"))
    assert cgroup_of(newer.agent, "sized").above().memory_limit == 100 << 20

    def reasons() -> set[str]:
        events = newer.api.get("/api/v1/namespaces/default/events")["items"]
        return {event["reason"] for event in events if event["involvedObject"]["name"] == "sized"}

    # Events are sent shortly after statuses.
    wanted = {"ResizeStarted", "ResizeCompleted", "ResizeError"}
    wait_for(lambda: wanted <= reasons(), 10, lambda: f"events: {reasons()}")
    newer.delete("sized")


def test_running_init_container_is_resized_in_place(newer: Cluster) -> None:
    """InPlacePodVerticalScalingInitContainers, beta in 1.36, which the node declares as one of its features."""
    setup = container("setup", lingering(), resources=_resources("100m", "64Mi"))
    newer.run(pod("preparing", initContainers=[setup]))
    running = newer.until(
        "preparing", lambda p: any(s.state and s.state.running for s in p.status.init_container_statuses)
    )
    larger = [{"name": "setup", "resources": _resources("200m", "128Mi")}]
    path = "/api/v1/namespaces/default/pods/preparing/resize"
    newer.api.strategic(path, {"spec": {"initContainers": larger}})

    def resized(found: Pod) -> bool:
        (status,) = found.status.init_container_statuses
        pending = _conditions(found).keys() & {"PodResizePending", "PodResizeInProgress"}
        limits = status.resources.limits if status.resources is not None else {}
        return not pending and limits == {"cpu": "200m", "memory": "128Mi"}

    (before,), (after,) = (
        found.status.init_container_statuses for found in (running, newer.until("preparing", resized))
    )
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    cgroup = cgroup_of(newer.agent, "preparing", "setup")
    assert (cgroup.cpu_quota, cgroup.memory_limit) == (20_000, 128 << 20)
    newer.agent.exec("preparing", "touch /tmp/end", container="setup", last=True)
    newer.ready("preparing")
    newer.delete("preparing", 1)


def test_resize_policy_restart_container_restarts_it(newer: Cluster) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    newer.run(pod("again", container(resources=_resources("100m", "64Mi"), resizePolicy=policy)))
    newer.ready("again")
    _resize(newer, "again", "150m", "64Mi")
    assert container_status(newer.until("again", _has_size("150m", "64Mi"))).restart_count == 0
    _resize(newer, "again", "150m", "96Mi")
    found = newer.until("again", lambda p: _has_size("150m", "96Mi")(p) and is_ready(p))
    assert container_status(found).restart_count == 1
    assert cgroup_of(newer.agent, "again").memory_limit == 96 << 20
    newer.delete("again")


def test_deferred_resize_survives_restart(newer: Cluster) -> None:
    node = newer.api.node(NODE)
    assert node is not None
    there = to_bytes(node["status"]["allocatable"]["memory"]) >> 20
    newer.run(pod("large", container(resources={"requests": {"memory": f"{there - 200}Mi"}})))
    newer.run(pod("small", container(resources=_resources("100m", "64Mi"))))
    before = container_status(newer.ready("small"))
    newer.ready("large")
    _resize(newer, "small", "100m", "300Mi")
    waits = newer.until("small", lambda p: "PodResizePending" in _conditions(p))
    condition = _conditions(waits)["PodResizePending"]
    assert condition.reason == "Deferred" and condition.observed_generation == 2
    assert condition.message.startswith("Node didn't have enough resource: memory, requested: ")
    newer.agent.kill()
    newer.agent.start()
    asked = datetime.now(UTC).replace(microsecond=0)
    _resize(newer, "small", "100m", f"{there + 1}Mi")
    refused = newer.until("small", lambda p: _pending(p) == "Infeasible")
    since = _conditions(refused)["PodResizePending"].last_transition_time
    assert since is not None and since >= asked, "the time is that of the reason before"
    _resize(newer, "small", "100m", "300Mi")
    newer.until("small", lambda p: _pending(p) == "Deferred")
    newer.delete("large")
    found = newer.until("small", _has_size("100m", "300Mi"))
    assert container_status(found).container_id == before.container_id
    assert cgroup_of(newer.agent, "small").memory_limit == 300 << 20
    newer.agent.kill()
    _resize(newer, "small", "100m", "80Mi")
    newer.agent.start()
    newer.until("small", _has_size("100m", "80Mi"))
    assert cgroup_of(newer.agent, "small").above().memory_limit == 80 << 20
    newer.delete("small")


def test_node_is_ready_only_when_its_csi_node_is_there(newer: Cluster, fake: FakeApiThread) -> None:
    """Otherwise the scheduler would bind pods with volumes before it knows their limits."""
    path = f"/apis/storage.k8s.io/v1/csinodes/{NODE}"
    assert newer.agent.stop() == 0
    newer.api.delete(path)
    fake.fail(Fault("POST .*/csinodes", status=500, times=1000))
    newer.agent.start()

    def reported() -> bool:
        found = newer.api.node_condition(NODE)
        return found.get("status") == "False" and "CSINode" in found["message"]

    wait_for(reported, 30.0, newer.agent.log_tail)
    assert newer.api.find(path) is None
    fake.fail()
    wait_for(lambda: newer.api.node_condition(NODE).get("status") == "True", 60.0, newer.agent.log_tail)
    assert newer.api.find(path) is not None
