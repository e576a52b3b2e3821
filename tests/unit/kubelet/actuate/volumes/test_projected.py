"""Tokens, trust bundles and certificates of an API server as files of projected volumes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.actuate.volumes import VolumeContext
from pykubelet.kubelet.actuate.volumes.kinds.projected import ProjectedVolume
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import ClusterTrustBundleProjection, Pod, ServiceAccountTokenProjection
from tests.unit.kubelet.actuate.volumes.build import Objects


@dataclass
class Issuer:
    """Issues anything but the bundle ``gone``."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        return b"token for " + projection.audience.encode()

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        if source.name == "gone":
            raise NotFound('clustertrustbundle "gone" not found')
        return b"anchors"

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        return f"key {volume} {index};".encode(), b"chain;"


def files(*sources: Mapping[str, Any], **security: object) -> dict[str, tuple[bytes, int, int | None]]:
    """Path to content, mode and owner."""
    volume = {"name": "v", "projected": {"sources": list(sources), "defaultMode": 0o444}}
    spec = {"containers": [{"name": "app"}], "volumes": [volume], "securityContext": security}
    pod = from_builtins({"metadata": {"name": "web", "uid": "u"}, "spec": spec}, Pod)
    context = VolumeContext(config=Objects())
    written: dict[str, tuple[bytes, int, int | None]] = {}
    request = SetUpRequest(
        pod=pod, volume=pod.spec.volumes[0], path=Path("/v"), context=context, tokens=Issuer(), now=0.0
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:

        def note(_request: object, payload: Mapping[str, Any], _directory: object) -> None:
            written.update({path: (file.data, file.mode, file.uid) for path, file in payload.items()})

        patch.setattr("pykubelet.kubelet.actuate.volumes.kinds.projected.content_work", note)
        ProjectedVolume().prepare(request)
    return written


BUNDLE = {"clusterTrustBundle": {"name": "ca", "path": "ca.pem"}}


def test_trust_bundle_is_a_file_and_a_missing_one_an_error() -> None:
    assert files(BUNDLE) == {"ca.pem": (b"anchors", 0o444, None)}
    with pytest.raises(Exception, match='clustertrustbundle "gone" not found'):
        files({"clusterTrustBundle": {"name": "gone", "path": "ca.pem"}})


def test_a_certificate_has_as_many_files_as_are_named() -> None:
    every = {"credentialBundlePath": "all.pem", "keyPath": "key.pem", "certificateChainPath": "chain.pem"}
    assert files(BUNDLE, {"podCertificate": {"signerName": "s", "keyType": "ED25519", **every}}) == {
        "ca.pem": (b"anchors", 0o444, None),
        "all.pem": (b"key v 1;chain;", 0o444, None),
        "key.pem": (b"key v 1;", 0o444, None),
        "chain.pem": (b"chain;", 0o444, None),
    }
    assert list(files({"podCertificate": {"keyPath": "k"}})) == ["k"]


def test_files_are_for_the_pod_s_own_user_or_group() -> None:
    assert files(BUNDLE, runAsUser=7)["ca.pem"] == (b"anchors", 0o600, 7)
    assert files(BUNDLE, fsGroup=8)["ca.pem"] == (b"anchors", 0o600, None)
    token = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    assert files(token, runAsUser=7)["t"] == (b"token for vault", 0o600, 7)


def test_one_large_object_does_not_fill_the_memory_by_being_named_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod of 1 MiB can have 12,000 sources of 1 MiB each; also if the last one wins."""
    monkeypatch.setattr(Issuer, "trust_anchors", lambda *_: b"x" * (8 << 20))
    assert len(files(BUNDLE, *[BUNDLE] * 7)["ca.pem"][0]) == 8 << 20
    with pytest.raises(Invalid, match="the files have more than 64 MiB together"):
        files(BUNDLE, *[BUNDLE] * 8)
