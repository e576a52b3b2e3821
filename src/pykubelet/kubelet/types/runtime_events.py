"""Events that the container runtime sends by itself (CRI GetContainerEvents), the fast path into PLEG."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import RuntimePod


class RuntimeEventKind(StrEnum):
    """Kind of change of a container or sandbox."""

    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    """Its first process has ended, and the runtime's status shows it."""
    DELETED = "deleted"
    OOM = "oom"
    """A process in it was OOM-killed; the container may still run."""


class RuntimeEvent(Struct, frozen=True):
    """An event of the runtime: a hint to read the state again, since events may be lost, duplicated or late."""

    container_id: str
    """Id of a container or of a sandbox."""
    kind: RuntimeEventKind
    time: float
    """Unix time in seconds, as the runtime gives it."""
    pod_uid: PodUID | None = None
    """The pod, where the runtime reports it."""
    seen: RuntimePod | None = None
    """The sandbox concerned with its containers, as of the event or later; None: the runtime does not report it."""
