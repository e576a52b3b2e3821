"""Claims of a cosign signature: the simple-signing payload. Pure.

Source: cosign's signature specification, "Simple Signing". containers/image has the same rules for the identity
``matchRepository``: the digest and the repository must be those of the image, a tag is not compared.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.text import printable
from pykubelet.base.units import KIB
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import canonical, parse

PAYLOAD_TYPE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
REFERRER_TYPE: Final = "application/vnd.dev.cosign.artifact.sig.v1+json"
"""The artifact type of manifests with signatures, where they are found by the referrers API."""
SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_TYPE: Final = "cosign container image signature"
MAX_SIGNATURES: Final = 64
"""Signatures of one manifest that are read."""
MAX_PAYLOAD: Final = 64 * KIB
_MAX_SIGNATURE: Final = 8 * KIB
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class _Identity(Struct, frozen=True):
    reference: str = field(name="docker-reference")


class _Image(Struct, frozen=True):
    digest: str = field(name="docker-manifest-digest")


class _CriticalClaims(Struct, frozen=True):
    identity: _Identity
    image: _Image
    type: str


class _Payload(Struct, frozen=True):
    critical: _CriticalClaims


class AttachedSignature(Struct, frozen=True):
    """A signature of a manifest: the blob with its payload, and the raw signature of that payload."""

    payload: Descriptor
    signature: bytes


def attached(blobs: Sequence[Descriptor], what: str) -> tuple[AttachedSignature, ...]:
    """Return the signatures among the blobs of a manifest; others are left out. Raises Invalid for too many."""
    found = [blob for blob in blobs if blob.media_type == PAYLOAD_TYPE and SIGNATURE in (blob.annotations or {})]
    if len(found) > MAX_SIGNATURES:
        raise Invalid(f"{what} has {len(found)} signatures; at most {MAX_SIGNATURES} are read")
    return tuple(AttachedSignature(blob, signature) for blob in found if (signature := _decoded(blob)))


def _decoded(blob: Descriptor) -> bytes:
    text = (blob.annotations or {})[SIGNATURE]
    if len(text) > _MAX_SIGNATURE or blob.size > MAX_PAYLOAD or not _BASE64.fullmatch(text):
        return b""
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        return b""


def check_claim(payload: bytes, digests: Collection[str], repository: str) -> None:
    """Check that a payload is about one of these digests and this repository. Raises Invalid with what differs."""
    try:
        critical = decode_json(payload, _Payload).critical
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"a signature's payload is invalid: {error}") from error
    if critical.type != _TYPE:
        raise Invalid(f"a signature is of type {_show(critical.type)}, not {_TYPE!r}")
    if critical.image.digest not in digests:
        raise Invalid(f"a signature is for another digest, {_show(critical.image.digest)}")
    try:
        claimed = parse(critical.identity.reference).name
    except Invalid as error:
        raise Invalid(f"a signature is for {_show(critical.identity.reference)}, which is no repository") from error
    if canonical(claimed) != canonical(repository):
        raise Invalid(f"a signature is for another repository, {_show(claimed)} instead of {repository}")


def _show(text: str) -> str:
    return printable(repr(text.encode(errors="backslashreplace").decode()[:200]))
