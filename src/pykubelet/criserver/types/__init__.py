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
from pykubelet.criserver.types.userns import IdMap, UserNamespace

__all__ = [
    "ContainerID",
    "ContainerPhase",
    "ContainerRecord",
    "ContainerUser",
    "IdMap",
    "ProcessRef",
    "SandboxID",
    "SandboxPhase",
    "SandboxRecord",
    "UserNamespace",
    "new_id",
]
