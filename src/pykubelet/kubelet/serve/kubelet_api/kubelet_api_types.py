"""Values of the kubelet API server: users, request attributes, certificates and access settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pykubelet.base.units import Seconds

ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"
AUTHENTICATED: Final = "system:authenticated"


class User(Struct, frozen=True):
    """The authenticated user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """The user as a cache key."""
        return self.name, self.uid, self.groups, tuple(sorted(self.extra.items()))


class RequestAttributes(Struct, frozen=True):
    """Operation of a request on the node object; access to any one of the subresources is enough."""

    verb: str
    subresources: tuple[str, ...]


class CertFiles(Struct, frozen=True):
    """A certificate (with its chain) and its key, PEM; both may be in one file."""

    certificate: Path
    key: Path


class TlsConfig(Struct, frozen=True):
    """``tlsMinVersion``, ``tlsCipherSuites`` and ``authentication.x509.clientCAFile``, as configured."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    client_ca: Path | None = None


class AuthConfig(Struct, frozen=True):
    """Settings of authentication and authorization. The TTLs are in seconds."""

    anonymous: bool = False
    token_webhook: bool = True
    token_ttl: Seconds = 120.0
    always_allow: bool = False
    """``authorization.mode: AlwaysAllow``; otherwise the API server decides."""
    allowed_ttl: Seconds = 300.0
    denied_ttl: Seconds = 30.0
