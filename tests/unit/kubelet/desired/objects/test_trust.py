"""ClusterTrustBundles: the content of a source, and the pods that are notified of changes."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.kubelet.desired.objects.plan.trust_bundles import anchors, selects
from pykubelet.kubelet.desired.objects.trust import TrustBundles
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.certificates_v1beta1 import ClusterTrustBundle
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import ClusterTrustBundleProjection, Pod
from pykubelet.models.meta_v1 import LabelSelector
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

PREFIX = "/apis/certificates.k8s.io/v1beta1"


def pem(*bodies: bytes) -> str:
    """Certificates of these contents, wrapped at an unusual length and with text between them."""
    parts = []
    for body in bodies:
        text = base64.b64encode(body).decode()
        parts.append(f"a comment\n-----BEGIN CERTIFICATE-----\n{text[:5]}\n{text[5:]}\n-----END CERTIFICATE-----\n")
    return "".join(parts)


def bundle(name: str, text: str, signer: str = "", **labels: str) -> ClusterTrustBundle:
    return from_builtins(
        {"metadata": {"name": name, "labels": labels}, "spec": {"signerName": signer, "trustBundle": text}},
        ClusterTrustBundle,
    )


def source(**fields: object) -> ClusterTrustBundleProjection:
    return from_builtins({"path": "ca.pem", **fields}, ClusterTrustBundleProjection)


BUNDLES = (
    bundle("plain", pem(b"one", b"two")),
    bundle("s:live", pem(b"two", b"three"), "example.com/s", stage="live"),
    bundle("s:test", pem(b"four"), "example.com/s", stage="test"),
)


def shown(**fields: object) -> set[bytes]:
    text = anchors(BUNDLES, source(**fields)).decode()
    return {
        base64.b64decode("".join(part.split("-----")[0].split())) for part in text.split("CERTIFICATE-----\n")[1::2]
    }


def test_trust_bundle_is_found_by_its_name() -> None:
    assert shown(name="plain") == {b"one", b"two"}


def test_trust_bundles_are_selected_by_signer_and_label() -> None:
    assert shown(signerName="example.com/s", labelSelector={}) == {b"two", b"three", b"four"}
    assert shown(signerName="example.com/s", labelSelector={"matchLabels": {"stage": "live"}}) == {b"two", b"three"}


def test_certificates_are_written_once_and_as_pem() -> None:
    twice = (bundle("a", pem(b"x" * 60), "s"), bundle("b", pem(b"x" * 60), "s"))
    text = anchors(twice, source(signerName="s", labelSelector={})).decode()
    assert text.count("BEGIN") == 1 and text.startswith("-----BEGIN CERTIFICATE-----\n")
    assert max(len(line) for line in text.splitlines()) == 64 and text.endswith("-----END CERTIFICATE-----\n")


def test_beginnings_of_certificates_without_an_end_take_no_long_search() -> None:
    """The API server takes any text behind a certificate, up to 1 MiB."""
    text = pem(b"one") + "-----BEGIN CERTIFICATE-----" * 100_000
    assert anchors((bundle("a", text),), source(name="a")) == anchors((bundle("a", pem(b"one")),), source(name="a"))


@pytest.mark.parametrize(
    "fields", [{"name": "gone"}, {"signerName": "example.com/s"}, {"signerName": "other", "labelSelector": {}}]
)
def test_missing_trust_bundle_is_accepted_only_if_optional(fields: dict[str, object]) -> None:
    with pytest.raises(NotFound):
        anchors(BUNDLES, source(**fields))
    assert anchors(BUNDLES, source(optional=True, **fields)) == b""


def test_a_source_has_to_name_something() -> None:
    with pytest.raises(Invalid, match="either name or signerName"):
        anchors(BUNDLES, source())
    with pytest.raises(Invalid, match="no base64"):
        anchors([bundle("bad", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----")], source(name="bad"))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Above"}]}, False),
    ],
)
def test_trust_bundle_is_selected_by_its_labels(selector: dict[str, object] | None, expected: bool) -> None:
    made = from_builtins(selector, LabelSelector) if selector is not None else None
    assert selects(made, {"a": "1"}) is expected


def pod(uid: str, *, bundles: bool = True) -> Pod:
    sources = [{"clusterTrustBundle": {"name": "ca", "path": "ca.pem"}}] if bundles else []
    volumes = [{"name": "v", "projected": {"sources": sources}}]
    return from_builtins({"metadata": {"name": uid, "uid": uid}, "spec": {"volumes": volumes}}, Pod)


@dataclass
class Rig:
    api: Api
    bundles: TrustBundles
    touched: list[frozenset[PodUID]] = field(default_factory=list)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        touched: list[frozenset[PodUID]] = []
        bundles = TrustBundles(client=api.client, touched=touched.append, clock=api.clock, patience=1.0)
        async with running(*bundles.parts().values()):
            yield Rig(api, bundles, touched)


async def test_bundles_are_followed_when_a_pod_wants_one(rig: Rig) -> None:
    await rig.bundles.ready(pod("u0", bundles=False))
    await settle()
    assert rig.api.fake.count(f"GET {PREFIX}") == 0
    rig.api.put("clustertrustbundles", "ca", namespace="", prefix=PREFIX, spec={"trustBundle": pem(b"one")})
    with pytest.raises(Transient):
        rig.bundles.anchors(source(name="ca"))
    await rig.bundles.ready(pod("u1"))
    before = rig.bundles.anchors(source(name="ca"))
    rig.api.change("clustertrustbundles", "ca", namespace="", prefix=PREFIX, spec={"trustBundle": pem(b"two")})
    await until(lambda: rig.touched == [frozenset({PodUID("u1")})])
    assert rig.bundles.anchors(source(name="ca")) != before
    rig.bundles.release(PodUID("u1"))


async def test_an_old_api_server_is_named(rig: Rig) -> None:
    rig.api.fake.faults.append(Fault("clustertrustbundles", status=404, times=100))
    with pytest.raises(Transient, match="the API server has no ClusterTrustBundles"):
        await rig.bundles.ready(pod("u1"))
