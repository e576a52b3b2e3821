"""Payloads of signatures: required fields, and omitted ones."""

import base64
import json

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.signatures.plan.claims import (
    MAX_PAYLOAD,
    MAX_SIGNATURES,
    PAYLOAD_TYPE,
    SIGNATURE,
    attached,
    check_claim,
)
from pykubelet.testing.signing import claim

_DIGEST = f"sha256:{1:064x}"
_OTHER = f"sha256:{2:064x}"
_REPOSITORY = "registry.example/team/app"


@pytest.mark.parametrize("reference", [_REPOSITORY, f"{_REPOSITORY}:1.2", f"{_REPOSITORY}@{_OTHER}"])
def test_claim_about_digest_and_repository_is_accepted_whatever_its_tag(reference: str) -> None:
    check_claim(claim(reference, _DIGEST), (_OTHER, _DIGEST), _REPOSITORY)


@pytest.mark.parametrize("reference", ["index.docker.io/library/app", "docker.io/library/app", "app"])
def test_names_of_docker_hub_are_one(reference: str) -> None:
    check_claim(claim(reference, _DIGEST), (_DIGEST,), "docker.io/library/app")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (claim(_REPOSITORY, _OTHER), "another digest"),
        (claim("registry.example/team/other", _DIGEST), "another repository"),
        (claim("registry.example/team/app/sub", _DIGEST), "another repository"),
        (claim("evil.example/team/app", _DIGEST), "another repository"),
        (claim("", _DIGEST), "no repository"),
        (claim("a b", _DIGEST), "no repository"),
        (claim(_REPOSITORY, _DIGEST, "atomic container signature"), "of type"),
        (b"{}", "payload is invalid"),
        (b"\xff", "payload is invalid"),
        (b"[" * 100_000, "payload is invalid"),
        (json.dumps({"critical": {"image": {"docker-manifest-digest": _DIGEST}}}).encode(), "payload is invalid"),
        (claim(_REPOSITORY, "x" * 10_000), "another digest"),
        (claim("\x1b[31m" * 1000, _DIGEST), "no repository"),
    ],
)
def test_other_claims_are_refused(payload: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        check_claim(payload, (_DIGEST,), _REPOSITORY)
    assert len(str(refused.value)) < 1000 and str(refused.value).isprintable()


def _blob(signature: str = base64.b64encode(b"sig").decode(), kind: str = PAYLOAD_TYPE, size: int = 100) -> Descriptor:
    return Descriptor(_DIGEST, size, kind, annotations={SIGNATURE: signature})


def test_only_whole_signatures_are_attached() -> None:
    blobs = [
        _blob(),
        _blob(kind="application/octet-stream"),
        _blob("not base64!"),
        _blob("abc"),
        _blob(""),
        _blob("A" * 100_000),
        _blob(size=MAX_PAYLOAD + 1),
        Descriptor(_DIGEST, 1, PAYLOAD_TYPE),
    ]
    assert [each.signature for each in attached(blobs, "x")] == [b"sig"]


def test_too_many_signatures_are_refused() -> None:
    assert len(attached([_blob()] * MAX_SIGNATURES, "x")) == MAX_SIGNATURES
    with pytest.raises(Invalid, match="at most 64"):
        attached([_blob()] * (MAX_SIGNATURES + 1), "x")
