"""Finds the registry credentials for an image in a pod's pull secrets. Pure.

Secrets of type `kubernetes.io/dockerconfigjson` and, older, `kubernetes.io/dockercfg` map registry locations to
credentials. A location may carry a port, a path and globs in the parts of its host name. The most specific
match comes first; all matches are candidates, to be tried in order. Rules: Kubernetes documentation, "Interpretation
of config.json".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote, urlsplit

from pykubelet.base import basic_auth
from pykubelet.base.documents import read_json
from pykubelet.base.errors import Invalid
from pykubelet.models.core_v1 import Secret

TYPE_JSON: Final = "kubernetes.io/dockerconfigjson"
TYPE_LEGACY: Final = "kubernetes.io/dockercfg"
_KEY_JSON: Final = ".dockerconfigjson"
_KEY_LEGACY: Final = ".dockercfg"
_DEFAULT_REGISTRY: Final = "index.docker.io"


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password for a registry. The password is not in the repr, so that it is never logged."""

    username: str
    password: str = field(repr=False)


class Keyring:
    """Credentials by registry location."""

    def __init__(self) -> None:
        self._by_location: dict[str, list[Credentials]] = {}

    def add(self, config: Mapping[str, Credentials]) -> None:
        """Add the entries of one secret; invalid locations are ignored."""
        for location, credentials in config.items():
            key = _normalise(location)
            if key is not None:
                self._by_location.setdefault(key, []).append(credentials)

    def lookup(self, repository: str) -> tuple[Credentials, ...]:
        """Candidates for a repository (`docker.io/library/busybox`), most specific first."""
        found: list[Credentials] = []
        for key in sorted(self._by_location, reverse=True):
            if _matches(key, repository):
                found += self._by_location[key]
        if not found and _is_default_registry(repository):
            found = self._by_location.get(_DEFAULT_REGISTRY, [])
        return tuple(dict.fromkeys(found))


def keyring_of(secrets: Iterable[Secret]) -> Keyring:
    """Build the keyring of a pod's pull secrets; other secret types are skipped. Raises Invalid."""
    keyring = Keyring()
    for secret in secrets:
        name = f"pull secret {secret.metadata.namespace}/{secret.metadata.name}"
        if secret.type == TYPE_JSON and secret.data.get(_KEY_JSON):
            document = _object(secret.data[_KEY_JSON], f"{name}, key {_KEY_JSON}")
            keyring.add(_entries(document.get("auths") or {}, f"{name}, key {_KEY_JSON}"))
        elif secret.type == TYPE_LEGACY and secret.data.get(_KEY_LEGACY):
            keyring.add(_entries(_object(secret.data[_KEY_LEGACY], name), f"{name}, key {_KEY_LEGACY}"))
    return keyring


def _object(data: bytes, where: str) -> dict[str, object]:
    try:
        document = read_json(data)
    except Invalid as error:
        raise Invalid(f"{where} is {error}; create it again with kubectl create secret docker-registry") from error
    if not isinstance(document, dict):
        raise Invalid(f"{where} is not a JSON object")
    return document


def _entries(auths: object, where: str) -> dict[str, Credentials]:
    if not isinstance(auths, dict):
        raise Invalid(f"{where}: 'auths' is not an object")
    return {str(location): _credentials(entry, f"{where}, {location}") for location, entry in auths.items()}


def _credentials(entry: object, where: str) -> Credentials:
    if not isinstance(entry, dict):
        raise Invalid(f"{where}: the entry is not an object")
    texts = {name: entry.get(name) or "" for name in ("username", "password", "auth")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise Invalid(f"{where}: username, password and auth have to be strings")
    if not texts["auth"]:
        return Credentials(texts["username"], texts["password"])
    auth = texts["auth"].strip()
    try:
        return Credentials(*basic_auth.decode(auth + "=" * (-len(auth) % 4)))
    except Invalid as error:
        raise Invalid(f"{where}: 'auth' is {error}") from error


def _normalise(location: str) -> str | None:
    """Host and path of a location, without scheme; the paths `/v1/` and `/v2/` of Docker mean the whole host."""
    text = location if location.startswith(("https://", "http://")) else f"https://{location}"
    parts = _split(text)
    if parts is None:
        return None
    host, path = parts
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    return host if path in ("", "/") else host + path


def _split(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.netloc.rpartition("@")[2], unquote(parts.path)


def _matches(key: str, repository: str) -> bool:
    pattern, target = _split(f"https://{key}"), _split(f"https://{repository}")
    if pattern is None or target is None or not target[1].startswith(pattern[1]):
        return False
    pattern_labels, pattern_port = _labels(pattern[0])
    target_labels, target_port = _labels(target[0])
    return (
        pattern_port == target_port
        and len(pattern_labels) == len(target_labels)
        # Go's globs negate a class with ^, Python's with !.
        and all(fnmatchcase(t, p.replace("[^", "[!")) for p, t in zip(pattern_labels, target_labels, strict=True))
    )


def _labels(host: str) -> tuple[list[str], str]:
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.split("."), port


def _is_default_registry(repository: str) -> bool:
    first, slash, _ = repository.partition("/")
    if not first:
        return False
    return not slash or first in ("docker.io", _DEFAULT_REGISTRY) or not ("." in first or ":" in first)
