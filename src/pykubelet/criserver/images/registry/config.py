"""Configuration of registry hosts, and the servers to try for a reference. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pykubelet.base.errors import Invalid

_DOCKER = "docker.io"
_DOCKER_REGISTRY = "registry-1.docker.io"
_DOCKER_NAMES = {_DOCKER, "index.docker.io", "registry-1.docker.io"}


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings for a server: paths of PEM files; without ``ca`` the system's authorities are used."""

    ca: str = ""
    client_certificate: str = ""
    client_key: str = ""
    """Path of the key; empty if the key is in the certificate's file."""
    skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """The configuration of one server: a registry, or a mirror of others."""

    mirrors: tuple[str, ...] = ()
    """Base URLs that are tried first, in this order; their authority and credentials are those of their own host."""
    plain_http: bool = False
    tls: Tls = Tls()
    username: str = ""
    """User name for pulls without credentials for this host."""
    password: str = ""

    def __repr__(self) -> str:
        return f"Host({', '.join(self.mirrors)})"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server to try."""

    base: str
    """Scheme, host and optional path, without a slash at the end."""
    host: str
    """Host and port, to which credentials are bound."""
    namespace: str = ""
    """For a mirror: the registry that it mirrors, sent as ``ns`` like containerd does."""
    proven: bool = False
    """Whether its certificate is verified, so that its identity is proven."""

    @property
    def plain(self) -> bool:
        return self.base.startswith("http://")


def endpoints(host: str, hosts: Mapping[str, Host]) -> tuple[Endpoint, ...]:
    """The servers to try for a registry: its mirrors, then the registry itself. Invalid: a mirror is not a base URL.

    Registries on loopback addresses use plain HTTP unless TLS is configured, as with Docker and containerd.
    """
    entry = find_host(host, hosts)
    found = []
    for mirror in entry.mirrors if entry else ():
        _check_mirror(mirror, host)
        name = urlsplit(mirror).netloc
        proven = mirror.startswith("https://") and _verified(find_host(name, hosts))
        found.append(Endpoint(mirror.rstrip("/"), name, host, proven=proven))
    real, plain = (_DOCKER_REGISTRY if host == _DOCKER else host), _speaks_plain(host, entry)
    base = f"{'http' if plain else 'https'}://{real}"
    return (*found, Endpoint(base, host, proven=not plain and _verified(entry)))


def _verified(entry: Host | None) -> bool:
    return entry is None or not entry.tls.skip_verify


def _check_mirror(mirror: str, host: str) -> None:
    """Raise Invalid if a mirror is not a base URL."""
    parts = urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise Invalid(f"mirror {mirror!r} of {host} must be http(s)://host[:port][/path]")


def find_host(host: str, hosts: Mapping[str, Host]) -> Host | None:
    """The configuration of a server by any of its names. Raises Invalid if it is inconsistent."""
    found = hosts.get(host) or next((entry for name, entry in hosts.items() if same_registry(name, host)), None)
    if found is not None:
        if found.tls.client_key and not found.tls.client_certificate:
            raise Invalid(f"registry {host}: client_key without client_certificate")
        if found.plain_http and found.tls != Tls():
            raise Invalid(f"registry {host}: plain_http excludes ca, client_certificate and skip_verify")
    return found


def same_registry(one: str, other: str) -> bool:
    """Whether two hosts, or URLs as in credentials, name the same registry."""
    return _canonical(one) == _canonical(other)


def is_loopback(host: str) -> bool:
    """Whether the host (perhaps with a port) is this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _speaks_plain(host: str, entry: Host | None) -> bool:
    """Whether a registry uses plain HTTP: as configured, or on loopback without a TLS configuration."""
    if entry is not None and (entry.plain_http or entry.tls != Tls()):
        return entry.plain_http
    return is_loopback(host)


def _canonical(text: str) -> str:
    host = (urlsplit(text).netloc if "://" in text else text.partition("/")[0]).lower()
    return _DOCKER if host in _DOCKER_NAMES else host
