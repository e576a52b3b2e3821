"""Certificates for pods: asked for, waited for, renewed, refused."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.kubelet.desired.objects.keys import new_key_and_request
from pykubelet.kubelet.desired.objects.pod_certificates import PodCertificates
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.certificates_v1beta1 import PodCertificateRequest
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Node, Pod
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

PREFIX = "/apis/certificates.k8s.io/v1beta1"
ONE, TWO = (f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n" for text in ("b25l", "dHdv"))
NODE = from_builtins({"metadata": {"name": "n", "uid": "n-1"}}, Node)


def pod(uid: str = "u1") -> Pod:
    certificate = {
        "signerName": "example.com/s", "keyType": "ED25519", "maxExpirationSeconds": 3600, "keyPath": "key",
        "userAnnotations": {"example.com/a": "b"},
    }  # fmt: skip
    sources = [{"configMap": {"name": "x"}}, {"podCertificate": certificate}]
    spec = {"serviceAccountName": "robot", "volumes": [{"name": "v", "projected": {"sources": sources}}]}
    return from_builtins({"metadata": {"name": "web", "namespace": "default", "uid": uid}, "spec": spec}, Pod)


@dataclass
class Rig:
    api: Api
    certificates: PodCertificates
    touched: list[frozenset[PodUID]] = field(default_factory=list)

    def requests(self) -> list[Any]:
        return self.api.all("podcertificaterequests", PREFIX)

    def decide(self, kind: str, chain: str = "", begin: str = "2199-01-01T00:00:00Z", **times: str) -> None:
        """A signer's answer to the newest request."""
        # Their names are random, so their order says nothing.
        newest = max(self.requests(), key=lambda each: int(each["metadata"]["resourceVersion"]))
        name = newest["metadata"]["name"]
        condition = {"type": kind, "status": "True", "reason": "Because", "message": "of you"}
        status = {"conditions": [condition], "certificateChain": chain, "beginRefreshAt": begin, **times}
        self.api.change("podcertificaterequests", name, prefix=PREFIX, status=status)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        api.put("serviceaccounts", "robot")
        touched: list[frozenset[PodUID]] = []
        certificates = PodCertificates(
            client=api.client, touched=touched.append, clock=api.clock, patience=1.0, rand=lambda: 0.0
        )
        async with running(*certificates.parts().values()):
            yield Rig(api, certificates, touched)


async def test_certificate_is_requested_and_renewed(rig: Rig) -> None:
    rig.certificates.node_seen(NODE)
    with pytest.raises(Transient, match=r"credential bundle is not issued yet: signer example\.com/s"):
        await rig.certificates.ready(pod())
    (request,) = rig.requests()
    spec = request["spec"]
    assert spec["podUID"] == "u1" and spec["nodeName"] == "n" and spec["nodeUID"] == "n-1"
    assert spec["serviceAccountUID"] and spec["maxExpirationSeconds"] == 3600
    assert spec["unverifiedUserAnnotations"] == {"example.com/a": "b"}
    assert request["metadata"]["ownerReferences"][0]["uid"] == "u1"
    with pytest.raises(Transient):
        rig.certificates.credentials(pod(), "v", 1)
    rig.decide("Issued", f"leaf:\n{ONE}", begin="2000-01-01T00:00:00Z")
    await rig.certificates.ready(pod())
    first = rig.certificates.credentials(pod(), "v", 1)
    assert first.chain == ONE.encode() and first.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    rig.touched.clear()
    rig.api.clock.shift = 400.0
    await until(lambda: len(rig.requests()) == 2)  # it says of itself that it is due
    assert rig.certificates.credentials(pod(), "v", 1) == first
    rig.decide("Issued", TWO + ONE)
    await until(lambda: rig.touched)
    second = rig.certificates.credentials(pod(), "v", 1)
    assert second.chain == (TWO + ONE).encode() and second.key != first.key
    await settle()
    assert len(rig.requests()) == 2
    rig.certificates.release(PodUID("u1"))
    with pytest.raises(Transient):
        rig.certificates.credentials(pod(), "v", 1)


async def test_result_watched_before_the_request_name_is_known_is_used(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = rig.api.client.create

    async def slow(*args: Any) -> Any:
        made = await create(*args)
        rig.decide("Issued", ONE)
        await until(lambda: any(each.status.conditions for each in rig.certificates._requests.values()))
        return made

    rig.certificates.node_seen(NODE)
    monkeypatch.setattr(rig.api.client, "create", slow)
    await rig.certificates.ready(pod())
    assert rig.certificates.credentials(pod(), "v", 1).chain == ONE.encode()
    assert len(rig.requests()) == 1


async def _looks(rig: Rig) -> None:
    """Return when certificates that are due have been looked for."""
    before = rig.api.clock.sleeps.count(30.0)
    await until(lambda: rig.api.clock.sleeps.count(30.0) > before + 2)


async def _asked(rig: Rig, times: int) -> None:
    await until(lambda: len(rig.requests()) == times)


async def _issued(rig: Rig, **times: str) -> float:
    """Have the newest request answered; after how many seconds the certificate will be renewed."""
    before = rig.certificates.credentials(pod(), "v", 1) if rig.touched else None
    rig.touched.clear()
    rig.decide("Issued", ONE, **times)
    await until(lambda: rig.touched)
    made = rig.certificates.credentials(pod(), "v", 1)
    assert made != before
    return made.refresh_at - rig.api.clock.monotonic()


async def test_certificate_that_is_due_as_soon_as_it_is_issued_is_backed_off(rig: Rig) -> None:
    """The node's clock is ahead: a request each half a minute would never end."""
    rig.certificates.node_seen(NODE)
    with pytest.raises(Transient):
        await rig.certificates.ready(pod())
    for number in range(1, 6):
        wait = await _issued(rig, begin="2000-01-01T00:00:00Z")
        assert wait == pytest.approx(30 * 2 ** (number - 1), abs=10)
        rig.api.clock.shift += 0.8 * wait
        await _looks(rig)
        assert len(rig.requests()) == number
        rig.api.clock.shift += 0.2 * wait
        await _asked(rig, number + 1)
    assert await _issued(rig) > 3600
    assert len(rig.requests()) == 6


async def test_certificate_that_begins_later_by_our_clock_is_renewed_after_its_own_time_and_not_before(
    rig: Rig,
) -> None:
    rig.certificates.node_seen(NODE)
    with pytest.raises(Transient):
        await rig.certificates.ready(pod())
    wait = await _issued(rig, begin="2199-01-01T02:00:00Z", notBefore="2199-01-01T00:00:00Z")
    assert wait == pytest.approx(7200, abs=30)
    await _looks(rig)
    assert len(rig.requests()) == 1
    rig.api.clock.shift += wait
    await until(lambda: len(rig.requests()) == 2)


async def test_malformed_certificate_keeps_no_other_pod_from_its_own(rig: Rig) -> None:
    rig.certificates.node_seen(NODE)
    asked: dict[str, PodCertificateRequest] = {}
    for uid, text in (("u1", ONE.replace("b25l", "b")), ("u2", ONE)):
        with pytest.raises(Transient):
            await rig.certificates.ready(pod(uid))
        name = ({each["metadata"]["name"] for each in rig.requests()} - asked.keys()).pop()
        status = {"conditions": [{"type": "Issued", "status": "True"}], "certificateChain": text}
        asked[name] = from_builtins({"metadata": {"name": name}, "status": status}, PodCertificateRequest)
    rig.touched.clear()
    rig.certificates._take({("default", name): request for name, request in asked.items()})
    assert rig.touched == [{PodUID("u2")}]
    assert rig.certificates.credentials(pod("u2"), "v", 1).chain == ONE.encode()
    with pytest.raises(Transient):
        await rig.certificates.ready(pod("u1"))
    assert len(rig.requests()) == 3, "another certificate is requested"


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
async def test_denied_certificate_is_final(rig: Rig, kind: str) -> None:
    rig.certificates.node_seen(NODE)
    with pytest.raises(Transient):
        await rig.certificates.ready(pod())
    rig.decide(kind)
    await rig.certificates.ready(pod())
    with pytest.raises(Permanent, match=f'permanently {kind.lower()}: reason="Because" message="of you"'):
        rig.certificates.credentials(pod(), "v", 1)
    await rig.certificates.ready(pod())
    assert len(rig.requests()) == 1


async def test_no_certificate_is_requested_before_the_node_is_known(rig: Rig) -> None:
    with pytest.raises(Transient, match="the node is not registered yet"):
        await rig.certificates.ready(pod())
    assert not rig.requests()


@pytest.mark.parametrize("kind", ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"])
def test_keys_of_all_kinds_prove_themselves(kind: str) -> None:
    key, request = new_key_and_request(kind)
    made = x509.load_der_x509_csr(request)
    assert made.is_signature_valid and not list(made.subject)
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    own = serialization.load_pem_private_key(key, None).public_key()
    assert own.public_bytes(*form) == made.public_key().public_bytes(*form)
    assert key.startswith(b"-----BEGIN PRIVATE KEY-----")


def test_other_kinds_are_refused() -> None:
    with pytest.raises(Invalid, match='unknown key type "DSA"'):
        new_key_and_request("DSA")
