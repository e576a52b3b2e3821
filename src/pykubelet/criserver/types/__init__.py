"""Values that several packages of the runtime server share: identifiers, records, user namespaces.

Imports nothing of the server. Start reading at ``records.py``.
"""

from pykubelet.criserver.types.ids import MAX_NETWORKS, ContainerID, ProtectedIds, SandboxID, find_by_id, new_id
from pykubelet.criserver.types.records import (
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    ProcessRef,
    SandboxPhase,
    SandboxRecord,
    request_digest,
)
from pykubelet.criserver.types.userns import IdMap, UserNamespace

__all__ = [
    "MAX_NETWORKS",
    "ContainerID",
    "ContainerPhase",
    "ContainerRecord",
    "ContainerUser",
    "IdMap",
    "ProcessRef",
    "ProtectedIds",
    "SandboxID",
    "SandboxPhase",
    "SandboxRecord",
    "UserNamespace",
    "find_by_id",
    "new_id",
    "request_digest",
]
