"""Where a reference's registry is asked. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pykubelet.base.errors import Invalid

_DOCKER = "docker.io"
_DOCKER_REGISTRY = "registry-1.docker.io"
_DOCKER_NAMES = {_DOCKER, "index.docker.io", "registry-1.docker.io"}


@dataclass(frozen=True, slots=True)
class Host:
    """How to reach one registry."""

    mirrors: tuple[str, ...] = ()
    """Base URLs asked first, in this order; they get no credentials unless these name the mirror's host."""
    plain_http: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server to ask."""

    base: str
    """Scheme, host and perhaps a path, without a slash at the end."""
    host: str
    """Host and port, to which credentials are bound."""
    namespace: str = ""
    """For a mirror: the registry it stands for, told as ``ns`` as containerd does."""

    @property
    def plain(self) -> bool:
        return self.base.startswith("http://")


def endpoints(host: str, hosts: Mapping[str, Host]) -> tuple[Endpoint, ...]:
    """Mirrors, then the registry itself. Invalid: a mirror is no base URL.

    Registries on loopback addresses speak plain HTTP unless configured, as with Docker and containerd.
    """
    entry = hosts.get(host)
    found = []
    for mirror in entry.mirrors if entry else ():
        parts = urlsplit(mirror)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise Invalid(f"mirror {mirror!r} of {host} must be http(s)://host[:port][/path]")
        found.append(Endpoint(mirror.rstrip("/"), parts.netloc, host))
    plain = entry.plain_http if entry else is_loopback(host)
    real = _DOCKER_REGISTRY if host == _DOCKER else host
    return (*found, Endpoint(f"{'http' if plain else 'https'}://{real}", host))


def same_registry(one: str, other: str) -> bool:
    """Whether two hosts, or URLs of them as credentials have, name the same registry."""
    return _canonical(one) == _canonical(other)


def is_loopback(host: str) -> bool:
    """Whether the host (perhaps with a port) is this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _canonical(text: str) -> str:
    host = (urlsplit(text).netloc if "://" in text else text.partition("/")[0]).lower()
    return _DOCKER if host in _DOCKER_NAMES else host
