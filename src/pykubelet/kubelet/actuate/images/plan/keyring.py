"""Finds the registry credentials for an image in a pod's pull secrets, a file of the node, or a plugin's answer. Pure.

Secrets of type `kubernetes.io/dockerconfigjson` and, older, `kubernetes.io/dockercfg` map registry locations to
credentials. A location may carry a port, a path and globs in the parts of its host name. The most specific
match comes first; all matches are candidates, to be tried in order. Rules: Kubernetes documentation, "Interpretation
of config.json".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import read_json
from pykubelet.base.http import basic_auth
from pykubelet.kubelet.actuate.images.plan.host_glob import label_matches
from pykubelet.models.core_v1 import Secret

TYPE_JSON: Final = "kubernetes.io/dockerconfigjson"
TYPE_LEGACY: Final = "kubernetes.io/dockercfg"
SECRET: Final = "Secret"
SERVICE_ACCOUNT: Final = "ServiceAccount"
_KEY_JSON: Final = ".dockerconfigjson"
_KEY_LEGACY: Final = ".dockercfg"
_NEW_SECRET: Final = "create it again with kubectl create secret docker-registry"
_DEFAULT_REGISTRY: Final = "index.docker.io"
_MOST_LOCATIONS: Final = 1000
"""All are compared with the image at each pull."""


class Owner(Struct, frozen=True):
    """The object that gives access to credentials."""

    kind: str
    """``Secret`` or ``ServiceAccount``."""
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """User and password for a registry. The password is not in the repr, so that it is never logged.

    Those with the same user and password are equal, whatever their owners are.
    """

    username: str
    password: str = field(repr=False)
    email: str = field(default="", repr=False, compare=False)
    """Docker's obsolete field; a part of the hash in the records of pulled images."""
    identity_token: str = field(default="", repr=False)
    """Instead of user and password: a token that the registry's token service takes."""
    owner: Owner | None = field(default=None, compare=False)
    """None: all pods of the node may use them."""


class Keyring:
    """RegistryCredentials by registry location."""

    def __init__(self) -> None:
        self._by_location: dict[str, list[RegistryCredentials]] = {}

    def add(self, config: Mapping[str, RegistryCredentials], owner: Owner | None = None) -> None:
        """Add the entries of one secret, file or plugin; invalid locations, and those beyond the limit, are ignored."""
        for location, credentials in config.items():
            if len(self._by_location) >= _MOST_LOCATIONS:
                return
            key = _normalise(location)
            if key is not None:
                self._by_location.setdefault(key, []).append(replace(credentials, owner=owner))

    def lookup(self, repository: str) -> tuple[RegistryCredentials, ...]:
        """Candidates for a repository (`docker.io/library/busybox`), most specific first; once for each owner."""
        found: list[RegistryCredentials] = []
        for key in sorted(self._by_location, reverse=True):
            if location_matches(key, repository):
                found += self._by_location[key]
        if not found and _is_default_registry(repository):
            found = self._by_location.get(_DEFAULT_REGISTRY, [])
        return tuple({(each, each.owner): each for each in found}.values())


def keyring_of(secrets: Iterable[Secret]) -> Keyring:
    """Build the keyring of a pod's pull secrets; other secret types are skipped. Raises Invalid."""
    keyring = Keyring()
    for secret in secrets:
        meta = secret.metadata
        name, owner = f"pull secret {meta.namespace}/{meta.name}", Owner(SECRET, meta.namespace, meta.name, meta.uid)
        if secret.type == TYPE_JSON and secret.data.get(_KEY_JSON):
            document = _object(secret.data[_KEY_JSON], f"{name}, key {_KEY_JSON}")
            keyring.add(_entries(document.get("auths") or {}, f"{name}, key {_KEY_JSON}"), owner)
        elif secret.type == TYPE_LEGACY and secret.data.get(_KEY_LEGACY):
            keyring.add(_entries(_object(secret.data[_KEY_LEGACY], name), f"{name}, key {_KEY_LEGACY}"), owner)
    return keyring


def keyring_of_file(data: bytes, *, legacy: bool, where: str) -> Keyring:
    """Build the keyring of a ``config.json``, or of an older ``.dockercfg``. Raises Invalid, which names ``where``."""
    keyring, document = Keyring(), _object(data, where, "log in again")
    entries = _entries(document if legacy else document.get("auths") or {}, where)
    # An empty entry says that a credential helper has the password.
    keyring.add({location: each for location, each in entries.items() if each.username or each.password})
    return keyring


def _object(data: bytes, where: str, remedy: str = _NEW_SECRET) -> dict[str, object]:
    try:
        document = read_json(data)
    except Invalid as error:
        raise Invalid(f"{where} is {error}; {remedy}") from error
    if not isinstance(document, dict):
        raise Invalid(f"{where} is not a JSON object")
    return document


def _entries(auths: object, where: str) -> dict[str, RegistryCredentials]:
    if not isinstance(auths, dict):
        raise Invalid(f"{where}: 'auths' is not an object")
    return {str(location): _credentials(entry, f"{where}, {location}") for location, entry in auths.items()}


def _credentials(entry: object, where: str) -> RegistryCredentials:
    if not isinstance(entry, dict):
        raise Invalid(f"{where}: the entry is not an object")
    texts = {name: entry.get(name) or "" for name in ("username", "password", "auth", "email")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise Invalid(f"{where}: username, password, auth and email have to be strings")
    if not texts["auth"]:
        return RegistryCredentials(texts["username"], texts["password"], texts["email"])
    auth = texts["auth"].strip()
    try:
        return RegistryCredentials(*basic_auth.decode(auth + "=" * (-len(auth) % 4)), texts["email"])
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


def location_matches(key: str, repository: str) -> bool:
    """Whether a location (``*.example.com:5000/team``) matches a repository: each label of the host and the port, and
    the path as a prefix. Globs in the host stand for a part of one label."""
    pattern, target = _split(f"https://{key}"), _split(f"https://{repository}")
    if pattern is None or target is None or not target[1].startswith(pattern[1]):
        return False
    pattern_labels, pattern_port = _labels(pattern[0])
    target_labels, target_port = _labels(target[0])
    return (
        pattern_port == target_port
        and len(pattern_labels) == len(target_labels)
        and all(label_matches(p, t) for p, t in zip(pattern_labels, target_labels, strict=True))
    )


def _labels(host: str) -> tuple[list[str], str]:
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]  # an IPv6 address: the brackets are no class of a glob
    return name.split("."), port


def _is_default_registry(repository: str) -> bool:
    first, slash, _ = repository.partition("/")
    if not first:
        return False
    return not slash or first in ("docker.io", _DEFAULT_REGISTRY) or not ("." in first or ":" in first)
