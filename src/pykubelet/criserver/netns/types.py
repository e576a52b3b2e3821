"""What a sandbox needs in namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pykubelet.criserver.types import IdMap


class Kind(StrEnum):
    """Kinds that are pinned, by the names of the OCI runtime spec."""

    NETWORK = "network"
    UTS = "uts"
    IPC = "ipc"
    USER = "user"


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """``sysctls`` are checked by the caller; each must belong to a kind that is made here. With ``ids``, which the kind
    USER needs, the others belong to the user namespace."""

    kinds: tuple[Kind, ...]
    hostname: str = ""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    ids: IdMap | None = None
