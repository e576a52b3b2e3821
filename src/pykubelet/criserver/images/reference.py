"""Parses references and ids of images that this runtime accepts. Pure.

The grammar is ``base.image_reference``; this module adds the limits of this runtime: digests are sha256 or sha512, an
image id is not a name even with a digest, and names of repositories have at most 255 characters with their host.
"""

import re

from pykubelet.base import image_reference
from pykubelet.base.errors import Invalid
from pykubelet.base.image_reference import InvalidReference, Reference

_MAX_NAME = 255
_DOCKER = "docker.io"
_DOCKER_HOSTS = frozenset({"index.docker.io", "registry-1.docker.io"})
_HTTPS = "443"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_BARE_ID = re.compile(r"[0-9a-f]{64}")


def parse(text: str) -> Reference:
    """Parse a reference to its full form. Raises Invalid with the reason."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise Invalid(f"image reference {text!r}: {digest!r} is not a sha256 or sha512 digest")
    if _BARE_ID.fullmatch(rest):
        raise Invalid(f"image reference {text!r} is an image id; give a name")
    try:
        reference = image_reference.parse(text)
    except InvalidReference as error:
        raise Invalid(f"image reference {text!r}: {error.detail}") from error
    if len(reference.name) > _MAX_NAME:
        raise Invalid(f"image reference {text!r}: {reference.path!r} is invalid: not a repository name")
    return reference


def canonical(repository: str) -> str:
    """The one spelling of a repository or a prefix of some, for rules: hosts are the same in capitals and with the port
    that HTTPS has anyway, and Docker's registry has several names.
    """
    place, slash, path = repository.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        host, port = place, ""
    host, port = host.lower(), port.lstrip("0")
    if host in _DOCKER_HOSTS:
        host = _DOCKER
    kept = f":{port}" if port and not (port == _HTTPS and "." in host) else ""
    return f"{host}{kept}{slash}{path}"


def is_digest(text: str) -> bool:
    """Whether the text is a whole digest (``sha256:…``), as image ids are."""
    return bool(_DIGEST.fullmatch(text))


def id_prefix(text: str) -> str:
    """The hexadecimal digits of a whole or shortened image id; empty when the text cannot be one."""
    digits = text.removeprefix("sha256:")
    return digits if re.fullmatch(r"[0-9a-f]{3,64}", digits) else ""
