"""Image references: parsing, and expansion to the full form. Pure.

Grammar and defaults are those of the distribution project (``reference`` package): ``busybox`` means
``docker.io/library/busybox:latest``.
"""

import re
from dataclasses import dataclass

from pykubelet.base.errors import Invalid

_DEFAULT_HOST = "docker.io"
_LEGACY_HOST = "index.docker.io"
_OFFICIAL = "library"
_MAX_NAME = 255

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_BARE_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A full reference. It has a tag, a digest, or both; with both, the digest takes precedence."""

    host: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """The repository: host and path."""
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
    """Parse a reference to its full form. Raises Invalid with the reason."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise Invalid(f"image reference {text!r}: {digest!r} is not a sha256 or sha512 digest")
    if _BARE_ID.fullmatch(rest):
        raise Invalid(f"image reference {text!r} is an image id; give a name")
    host, path = _split(rest)
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise Invalid(f"image reference {text!r}: {tag!r} is not a valid tag")
    if not _HOST.fullmatch(host):
        raise Invalid(f"image reference {text!r}: {host!r} is not a valid registry host")
    if not _PATH.fullmatch(path) or len(host) + 1 + len(path) > _MAX_NAME:
        why = "names are lower case" if path.lower() != path else "not a repository name"
        raise Invalid(f"image reference {text!r}: {path!r} is invalid: {why}")
    return Reference(host, path, tag or ("" if digest else "latest"), digest)


def is_digest(text: str) -> bool:
    """Whether the text is a whole digest (``sha256:…``), as image ids are."""
    return bool(_DIGEST.fullmatch(text))


def id_prefix(text: str) -> str:
    """The hexadecimal digits of a whole or shortened image id; empty when the text cannot be one."""
    digits = text.removeprefix("sha256:")
    return digits if re.fullmatch(r"[0-9a-f]{3,64}", digits) else ""


def _split(text: str) -> tuple[str, str]:
    host, slash, path = text.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host.lower() != host):
        host, path = _DEFAULT_HOST, text
    if host == _LEGACY_HOST:
        host = _DEFAULT_HOST
    if host == _DEFAULT_HOST and "/" not in path:
        path = f"{_OFFICIAL}/{path}"
    return host, path
