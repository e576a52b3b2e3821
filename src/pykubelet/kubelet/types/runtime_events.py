"""What the container runtime tells by itself, before anybody lists: the fast path into PLEG."""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import RuntimePod


class RuntimeEventKind(StrEnum):
    """What happened to the container or sandbox."""

    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    """Its first process ended, and the runtime's status says so."""
    DELETED = "deleted"
    OOM = "oom"
    """A process in it was killed for want of memory; it may run on."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """One event. It is a hint to look again, not a state: events may be lost, doubled or late."""

    container_id: str
    """Of a container or of a sandbox."""
    kind: RuntimeEventKind
    time: float
    """Unix time in seconds, as the runtime gives it."""
    pod_uid: PodUID | None = None
    """The pod, where the runtime says it."""
    seen: RuntimePod | None = None
    """The sandbox that it is about, with its containers, no earlier than the event; where the runtime says it."""
