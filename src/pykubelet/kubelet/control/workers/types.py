"""The life of a pod worker as values: phases, what it was asked, what its steps returned.

    Sync ──► Terminating ──► Terminated ──► (Removed)

One way only. A pod that ended by itself rests in Terminated for as long as its source still wants it; a pod that its
source gave up goes on to Removed, after which nothing of it is left on the node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.outcome import Failure
from pykubelet.models.core_v1 import Pod


class Phase(StrEnum):
    """Where a worker is in the life of its pod."""

    SYNC = "sync"
    """Make the pod run as wanted, again and again."""
    TERMINATING = "terminating"
    """Stop every container, with grace."""
    TERMINATED = "terminated"
    """Release volumes and cgroups; then rest while the source still lists the pod."""
    REMOVED = "removed"
    """Remove containers, sandboxes, logs and records."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Everything a worker remembers between two steps. The runtime's state is never kept: it is read."""

    ref: PodRef
    pod: Pod | None
    """The latest wanted pod; None for one known only from the runtime (an orphan)."""
    phase: Phase = Phase.SYNC
    done: bool = False
    """The current phase's step has succeeded and its work needs no repetition (Terminated and Removed only)."""
    wanted: bool = True
    """A source still lists the pod."""
    grace_seconds: int | None = None
    """Override of the grace period; the shortest one asked for."""
    restart: Pod | None = None
    """The same uid was wanted again while it was being stopped: start anew afterwards."""
    restart_refusal: tuple[str, str] | None = None
    """(reason, message) if the pod that is wanted again was not admitted."""
    rejected: bool = False
    """Never admitted: its status is final, and there is nothing to stop."""
    terminal_reason: str = ""
    """Why the kubelet ended the pod itself (``DeadlineExceeded``, …)."""
    terminal_message: str = ""
    failures: tuple[Failure, ...] = ()
    """What kept the last sync from succeeding; shown as waiting reasons."""
    errors: int = 0
    """Steps in a row that failed for a reason that is not merely waiting."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step tells the machine."""

    finished: bool = False
    """Sync: the pod has ended by itself or was ended. Other phases: the phase's goal is reached."""
    again: bool = False
    """Something changed: take the step again at once."""
    wake_at: float | None = None
    """Monotonic time at which to look again for a known cause."""
    failures: tuple[Failure, ...] = field(default=())
    terminal_reason: str = ""
    terminal_message: str = ""
