"""Image names: validation, default tag, default pull policy. Pure.

The grammar is that of the OCI distribution project's reference library, which every container runtime uses;
the defaults (`:latest`, Docker Hub's `library/`) are those of Docker, and the kubelet applies them the same way.
"""

import re
from dataclasses import dataclass
from typing import Final

from pykubelet.base.errors import Invalid

DEFAULT_TAG: Final = "latest"
_DEFAULT_DOMAIN: Final = "docker.io"
_LEGACY_DOMAIN: Final = "index.docker.io"
_OFFICIAL: Final = "library/"
_MAX_PATH: Final = 255

_COMPONENT = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_COMPONENT}(?:\.{_COMPONENT})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?P<domain>{_DOMAIN})/(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)
_HEX_ID = re.compile(r"[a-f0-9]{64}")
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}


@dataclass(frozen=True, slots=True)
class Reference:
    """Parsed image name. `tag` is `latest` if the name has neither tag nor digest."""

    repository: str
    """Repository with the registry's host: `docker.io/library/busybox`."""
    tag: str
    digest: str


def parse(image: str) -> Reference:
    """Parse an image name. Raises Invalid with the reason."""
    try:
        return _parse(image)
    except Invalid as error:
        raise Invalid(f'couldn\'t parse image name "{image}": {error}') from error


def _parse(image: str) -> Reference:
    if _HEX_ID.fullmatch(image):
        raise Invalid(f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings")
    domain, rest = _split_domain(image)
    name = rest.partition(":")[0]
    if name != name.lower():
        raise Invalid(f"invalid reference format: repository name ({name}) must be lowercase")
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if match is None:
        raise Invalid("invalid reference format")
    if len(match["path"]) > _MAX_PATH:
        raise Invalid(f"repository name must not be more than {_MAX_PATH} characters")
    digest = match["digest"] or ""
    if digest:
        _check_digest(digest)
    tag = match["tag"] or ("" if digest else DEFAULT_TAG)
    return Reference(f"{match['domain']}/{match['path']}", tag, digest)


def with_default_tag(image: str) -> str:
    """Return the name, with `:latest` appended if it has neither tag nor digest.

    The registry is not added: the runtime resolves short names. Raises Invalid.
    """
    reference = parse(image)
    if not reference.digest and not image.endswith(f":{reference.tag}"):
        return f"{image}:{reference.tag}"
    return image


def default_pull_policy(image: str) -> str:
    """Default pull policy: Always for the tag `latest`, else IfNotPresent."""
    try:
        return "Always" if parse(image).tag == DEFAULT_TAG else "IfNotPresent"
    except Invalid:
        return "IfNotPresent"


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    explicit = bool(slash) and (first == "localhost" or "." in first or ":" in first or first != first.lower())
    domain, path = (first, rest) if explicit else (_DEFAULT_DOMAIN, image)
    if domain == _LEGACY_DOMAIN:
        domain = _DEFAULT_DOMAIN
    if domain == _DEFAULT_DOMAIN and "/" not in path:
        path = _OFFICIAL + path
    return domain, path


def _check_digest(digest: str) -> None:
    algorithm, _, encoded = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise Invalid("unsupported digest algorithm")
    if len(encoded) != length:
        raise Invalid("invalid checksum digest length")
    if encoded != encoded.lower():
        raise Invalid("invalid checksum digest format")
