"""The container's life cycle, and what recovery does with each record. Pure."""

from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import Conflict
from pykubelet.base.transition_table import LifeCycle
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, ProcessRef

LIFE_CYCLE = LifeCycle(
    "container",
    (
        (ContainerPhase.MAKING, "its files are made", ContainerPhase.CREATED),
        (ContainerPhase.MAKING, "its sandbox is removed", ContainerPhase.REMOVING),
        (ContainerPhase.CREATED, "the call that created it was cancelled", ContainerPhase.MAKING),
        (ContainerPhase.CREATED, "it is started", ContainerPhase.RUNNING),
        (ContainerPhase.CREATED, "its start failed, or its bundle is lost", ContainerPhase.EXITED),
        (ContainerPhase.CREATED, "it is removed", ContainerPhase.REMOVING),
        (ContainerPhase.RUNNING, "its first process ends, or is lost", ContainerPhase.EXITED),
        (ContainerPhase.EXITED, "it is removed", ContainerPhase.REMOVING),
        (ContainerPhase.REMOVING, "the removal is retried", ContainerPhase.REMOVING),
    ),
)
"""Its diagram is in ARCHITECTURE.md."""

START_FAILED = 128
UNKNOWN_EXIT = 255
_SIGKILLED = 137


class Recovery(Enum):
    """Action for a container's record when the server starts."""

    KEEP = auto()
    ADOPT = auto()
    """It is running: watch it again."""
    FINISH = auto()
    """It ended while no server was running: record its exit."""
    UNSTART = auto()
    """Its start was interrupted: undo it; the container is in the created phase again."""
    LOST = auto()
    """Its processes or its bundle are gone (a reboot): record an unknown exit."""
    REMOVE = auto()


class Traces(Struct, frozen=True):
    """State of a container on the machine, as recovery finds it."""

    alive: bool
    """The process in its record is running."""
    monitored: bool
    """Its conmon is running."""
    exit_noted: bool
    start_begun: bool
    """A conmon, an OCI state or a pid file exists."""
    program_runs: bool
    """The program runs or has run: it does not wait to be started."""
    bundle: bool


def id_for_retry(holder: ContainerRecord, request: str) -> ContainerID:
    """Return the id of the container that holds a name to a client that retries the same request.

    Conflict: the requests differ, or the container has been started.
    """
    if holder.phase is ContainerPhase.CREATED and holder.request == request:
        return holder.id
    state = f"container {holder.id}, which is {holder.phase.value}"
    raise Conflict(f"container name {holder.name!r} is reserved for {state} or was requested with other settings")


def of_boot(record: ContainerRecord, last: str) -> ContainerRecord:
    """Fill in the boot id of its processes: older servers stored only one for all records, ``last``."""

    def noted(ref: ProcessRef | None) -> ProcessRef | None:
        return ref if ref is None or ref.boot else replace(ref, boot=last)

    return replace(record, process=noted(record.process), monitor=noted(record.monitor))


def recover(record: ContainerRecord, traces: Traces) -> Recovery:
    """Decide what a restarted server does with one container."""
    match record.phase:
        case ContainerPhase.MAKING | ContainerPhase.REMOVING:
            return Recovery.REMOVE
        case ContainerPhase.EXITED:
            return Recovery.KEEP
        case ContainerPhase.RUNNING:
            if traces.alive or traces.monitored:
                return Recovery.ADOPT
            return Recovery.FINISH if traces.exit_noted else Recovery.LOST
        case ContainerPhase.CREATED:
            if not traces.bundle:
                return Recovery.LOST
            if not traces.start_begun:
                return Recovery.KEEP
            if not traces.program_runs:
                return Recovery.UNSTART
            if traces.monitored:
                return Recovery.ADOPT
            return Recovery.FINISH if traces.exit_noted else Recovery.UNSTART


def oom_killed(exit_code: int, *, noted: bool, kills: int, pod_kills: int, by_us: bool) -> bool:
    """Whether a container was OOM-killed.

    ``noted``: conmon saw it; ``kills``: the kernel's count in its cgroup, 0 if that is gone; ``pod_kills``: the
    kernel's count in its pod since its start, used if SIGKILL ended it and this server (``by_us``) did not send that.
    """
    return noted or kills > 0 or (exit_code == _SIGKILLED and pod_kills > 0 and not by_us)


def reason(exit_code: int, oom_killed: bool) -> str:
    """The reason of an exit, as kubelets show it.

    As in containerd, a container is OOMKilled also if its program has survived the kill of a child, and ended with 0:
    kubelets count such an init container as failed.
    """
    if oom_killed:
        return "OOMKilled"
    return "Error" if exit_code else "Completed"
