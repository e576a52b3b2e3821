"""Values that several rooms of the server share."""

from pykubelet.criserver.types.ids import ContainerID, SandboxID, new_id
from pykubelet.criserver.types.records import (
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    ProcessRef,
    SandboxPhase,
    SandboxRecord,
)

__all__ = [
    "ContainerID",
    "ContainerPhase",
    "ContainerRecord",
    "ContainerUser",
    "ProcessRef",
    "SandboxID",
    "SandboxPhase",
    "SandboxRecord",
    "new_id",
]
