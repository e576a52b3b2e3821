"""Configuration of registry hosts, and the servers to try for a reference. Pure."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.criserver.images.reference import canonical

_DOCKER = "docker.io"
_DOCKER_REGISTRY = "registry-1.docker.io"


class Tls(Struct, frozen=True):
    """TLS settings for a server: paths of PEM files; without ``ca`` the system's authorities are used."""

    ca: str = ""
    further_ca: tuple[str, ...] = ()
    """Authorities beside those of ``ca``, or of the system."""
    client_certificate: str = ""
    client_key: str = ""
    """Path of the key; empty if the key is in the certificate's file."""
    skip_verify: bool = False


class HostConfig(Struct, frozen=True):
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


class Endpoint(Struct, frozen=True):
    """A server to try for a registry."""

    base: str
    """Scheme, host and optional path, without a slash at the end."""
    host: str
    """HostConfig and port, to which credentials are bound."""
    namespace: str = ""
    """For a mirror: the registry that it mirrors, sent as ``ns`` like containerd does."""
    api: str = "/v2"
    """The path of the registry API below ``base``; empty if ``base`` ends with it."""
    tls: Tls = Tls()
    authorization: str = ""
    """The first Authorization header that it gets; another one is used when it asks for credentials."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of all requests to it."""
    connect: Seconds = 30.0
    """Time limit of a connection's establishment."""
    resolves: bool = True
    """Whether it is asked for the digests of tags."""
    pulls: bool = True
    """Whether it is asked for manifests and blobs by their digests."""
    refers: bool = True
    """Whether it is asked for the manifests that refer to an image."""

    @property
    def plain(self) -> bool:
        return self.base.startswith("http://")

    @property
    def proven(self) -> bool:
        """Whether its certificate is verified, so that its identity is proven."""
        return not self.plain and not self.tls.skip_verify

    def __repr__(self) -> str:
        return f"Endpoint({self.base})"  # headers may be secrets


def endpoints(host: str, hosts: Mapping[str, HostConfig]) -> tuple[Endpoint, ...]:
    """The servers to try for a registry: its mirrors, then the registry itself. Invalid: a mirror is not a base URL.

    Registries on loopback addresses use plain HTTP unless TLS is configured, as with Docker and containerd.
    """
    entry = find_host(host, hosts)
    found = []
    for mirror in entry.mirrors if entry else ():
        _check_mirror(mirror, host)
        name = urlsplit(mirror).netloc
        found.append(Endpoint(mirror.rstrip("/"), name, host, tls=_tls(find_host(name, hosts))))
    return (*found, default_endpoint(host, plain=_speaks_plain(host, entry), tls=_tls(entry)))


def check_host(host: str) -> None:
    """Raise Invalid for a host that no URL can have, although image references may."""
    try:
        parts = urlsplit(f"//{host}")
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise Invalid(f"{host!r} is not a valid registry host")


def default_endpoint(host: str, *, plain: bool | None = None, tls: Tls) -> Endpoint:
    """The registry itself; ``plain`` None: without TLS only if it is this machine."""
    if plain is None:
        plain = is_loopback(host)
    return Endpoint(f"{'http' if plain else 'https'}://{real_name(host)}", host, tls=tls)


def with_settings(endpoint: Endpoint, entry: HostConfig | None) -> Endpoint:
    """The endpoint, with the TLS settings of its host's entry if it has none of its own."""
    return replace(endpoint, tls=entry.tls) if entry is not None and endpoint.tls == Tls() else endpoint


def real_name(host: str) -> str:
    """The host that serves a registry of this name."""
    return _DOCKER_REGISTRY if host == _DOCKER else host


def says_how(entry: HostConfig | None) -> bool:
    """Whether an entry says how to reach its registry, more than with which credentials."""
    return entry is not None and (bool(entry.mirrors) or entry.plain_http or entry.tls != Tls())


def _tls(entry: HostConfig | None) -> Tls:
    return entry.tls if entry is not None else Tls()


def _check_mirror(mirror: str, host: str) -> None:
    """Raise Invalid if a mirror is not a base URL."""
    try:
        parts = urlsplit(mirror)
    except ValueError:
        parts = urlsplit("")
    superfluous = "@" in parts.netloc or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or superfluous:
        raise Invalid(f"mirror {mirror.rpartition('@')[2]!r} of {host} must be http(s)://host[:port][/path]")


def find_host(host: str, hosts: Mapping[str, HostConfig]) -> HostConfig | None:
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


def shown_url(url: str) -> str:
    """A URL that a server names, which may be invalid, for an error: user, password and query may give access."""
    if "@" in url:
        scheme, slashes, _ = url.partition("://")
        return repr(f"{scheme[:10]}://…" if slashes and "@" not in scheme else "…")
    path, query, _ = url.partition("?")
    return repr(path[:200] + ("?…" if query else ""))


def is_loopback(host: str) -> bool:
    """Whether the host (perhaps with a port) is this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _speaks_plain(host: str, entry: HostConfig | None) -> bool:
    """Whether a registry uses plain HTTP: as configured, or on loopback without a TLS configuration."""
    if entry is not None and (entry.plain_http or entry.tls != Tls()):
        return entry.plain_http
    return is_loopback(host)


def _canonical(text: str) -> str:
    return canonical(urlsplit(text).netloc if "://" in text else text.partition("/")[0])
