"""Image references: parsing, expansion to the full form, default tag and default pull policy. Pure.

The grammar is that of the OCI distribution project's reference library, which every container runtime uses: ``busybox``
means ``docker.io/library/busybox:latest``.
"""

import re
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.text import cut

DEFAULT_TAG: Final = "latest"
_DEFAULT_HOST: Final = "docker.io"
_LEGACY_HOST: Final = "index.docker.io"
_OFFICIAL: Final = "library"
_MAX_PATH: Final = 255
MAX_LENGTH: Final = 4096
"""Maximum characters of a reference: more than any registry has, and few enough to be repeated in messages."""
_SHOWN: Final = 512
"""Bytes that the messages show of a text that is longer."""

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_IMAGE_ID = re.compile(r"[a-f0-9]{64}")
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}


class InvalidReference(Invalid):
    """A text is not an image reference. The message is the Go kubelet's; ``detail`` names the part that is invalid."""

    def __init__(self, text: str, reason: str, detail: str) -> None:
        super().__init__(f'couldn\'t parse image name "{text}": {reason}')
        self.detail = detail


class Reference(Struct, frozen=True):
    """A full reference. It has a tag, a digest, or both; with both, the digest takes precedence."""

    host: str
    path: str
    tag: str = ""
    """``latest`` if the text had neither tag nor digest."""
    digest: str = ""

    @property
    def name(self) -> str:
        """The repository: host and path (``docker.io/library/busybox``)."""
        return f"{self.host}/{self.path}"

    @property
    def target(self) -> str:
        """The digest or tag to request from the registry."""
        return self.digest or self.tag

    def with_digest(self, digest: str) -> str:
        """The reference of a manifest of this repository by its digest."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        return self.with_digest(self.digest) if self.digest else f"{self.name}:{self.tag}"


def parse(text: str) -> Reference:
    """Parse a reference to its full form. Raises InvalidReference."""
    if len(text) > MAX_LENGTH:
        beginning = cut(text, _SHOWN) + "…"
        fault = f"{beginning!r} is invalid: longer than {MAX_LENGTH} characters"
        raise InvalidReference(beginning, "invalid reference format", fault)
    if _IMAGE_ID.fullmatch(text):
        reason = f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        raise InvalidReference(text, reason, f"{text!r} is an image id; give a name")
    host, rest = _split_host(text)
    name = rest.partition(":")[0]
    if name != name.lower():
        reason = f"invalid reference format: repository name ({name}) must be lowercase"
        raise InvalidReference(text, reason, f"{name!r} is invalid: names are lower case")
    rest, at, digest = rest.partition("@")
    path, colon, tag = rest.partition(":")
    malformed = _malformed(host, path, tag if colon else None, digest if at else None)
    if malformed:
        raise InvalidReference(text, "invalid reference format", malformed)
    if len(path) > _MAX_PATH:
        reason = f"repository name must not be more than {_MAX_PATH} characters"
        raise InvalidReference(text, reason, f"{path!r} is invalid: longer than {_MAX_PATH} characters")
    if digest and (fault := _digest_fault(digest)):
        raise InvalidReference(text, fault, f"{digest!r} is not a digest: {fault}")
    return Reference(host, path, tag or ("" if digest else DEFAULT_TAG), digest)


def with_default_tag(image: str) -> str:
    """Return the name, with ``:latest`` appended if it has neither tag nor digest. Raises InvalidReference.

    The registry is not added: the runtime resolves short names.
    """
    reference = parse(image)
    if not reference.digest and not image.endswith(f":{reference.tag}"):
        return f"{image}:{reference.tag}"
    return image


def without_tag(image: str) -> str:
    """Return the name without its tag and digest; unlike `Reference.name` it stays short. Raises InvalidReference."""
    reference = parse(image)
    name = image.removesuffix(f"@{reference.digest}") if reference.digest else image
    return name.removesuffix(f":{reference.tag}") if reference.tag else name


def default_pull_policy(image: str) -> str:
    """Default pull policy: Always for the tag ``latest``, else IfNotPresent."""
    try:
        return "Always" if parse(image).tag == DEFAULT_TAG else "IfNotPresent"
    except Invalid:
        return "IfNotPresent"


def _split_host(text: str) -> tuple[str, str]:
    """Split into registry host and the rest, both with Docker's defaults."""
    host, slash, rest = text.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, rest = _DEFAULT_HOST, text
    if host == _LEGACY_HOST:
        host = _DEFAULT_HOST
    if host == _DEFAULT_HOST and "/" not in rest:
        rest = f"{_OFFICIAL}/{rest}"
    return host, rest


def _malformed(host: str, path: str, tag: str | None, digest: str | None) -> str:
    """Say which part does not match the grammar; empty if all do."""
    if digest is not None and not _DIGEST.fullmatch(digest):
        return f"{digest!r} is not a digest"
    if tag is not None and not _TAG.fullmatch(tag):
        return f"{tag!r} is not a valid tag"
    if not _HOST.fullmatch(host):
        return f"{host!r} is not a valid registry host"
    if not _PATH.fullmatch(path):
        return f"{path!r} is invalid: not a repository name"
    return ""


def _digest_fault(digest: str) -> str:
    """Say why the algorithm does not allow this digest; empty if it does."""
    algorithm, _, encoded = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        return "unsupported digest algorithm"
    if len(encoded) != length:
        return "invalid checksum digest length"
    return "" if encoded == encoded.lower() else "invalid checksum digest format"
