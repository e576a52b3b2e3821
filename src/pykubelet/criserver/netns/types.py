"""What a sandbox needs in namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """Kinds that are pinned, by the names of the OCI runtime spec."""

    NETWORK = "network"
    UTS = "uts"
    IPC = "ipc"


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """``sysctls`` are checked by the caller; each must belong to a kind that is made here."""

    kinds: tuple[Kind, ...]
    hostname: str = ""
    sysctls: Mapping[str, str] = field(default_factory=dict)
