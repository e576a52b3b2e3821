"""The namespaces that a sandbox needs."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from pykubelet.criserver.types import IdMap


class NamespaceKind(StrEnum):
    """Types of namespaces that are pinned, by their names in the OCI runtime spec."""

    NETWORK = "network"
    UTS = "uts"
    IPC = "ipc"
    USER = "user"


class NamespaceSpec(Struct, frozen=True):
    """The namespaces of one sandbox.

    The caller has checked ``sysctls``; each must belong to a type in ``kinds``. The kind USER needs ``ids``; the other
    namespaces then belong to the user namespace.
    """

    kinds: tuple[NamespaceKind, ...]
    hostname: str = ""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    ids: IdMap | None = None
