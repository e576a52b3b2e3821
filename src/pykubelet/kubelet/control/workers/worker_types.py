"""Values of a pod worker: its phases, its state, and the results of its steps.

    Sync ──► Terminating ──► Terminated ──► (Removed)

Phases are never left backwards. A pod that ended by itself stays in Terminated for as long as its source lists it; a
pod that its source no longer lists continues to Removed, after which nothing of it remains on the node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.outcome import Failure
from pykubelet.kubelet.types.reports.decisions import Decision
from pykubelet.models.core_v1 import Pod


class Phase(StrEnum):
    """Phase of the pod's life that a worker is in."""

    SYNC = "sync"
    """Make the pod run as desired, repeatedly."""
    TERMINATING = "terminating"
    """Stop every container within the grace period."""
    TERMINATED = "terminated"
    """Release volumes and cgroups; then wait while the source still lists the pod."""
    REMOVED = "removed"
    """Remove containers, sandboxes, logs and records."""


class WorkerState(Struct, frozen=True):
    """State that a worker keeps between two steps. The runtime's state is never kept, but read in every step."""

    ref: PodRef
    pod: Pod | None
    """The latest version of the pod; None for an orphan, which only the runtime has."""
    phase: Phase = Phase.SYNC
    done: bool = False
    """The current phase's step has succeeded and need not be repeated (Terminated and Removed only)."""
    wanted: bool = True
    """A source still lists the pod."""
    grace_seconds: int | None = None
    """Override of the grace period in seconds; the shortest one requested."""
    ends_in_time: bool = False
    """The node has set a grace period itself, so that the pod cannot take as long to end as its spec says."""
    evicted: bool = False
    restart: Pod | None = None
    """The pod to start afterwards: its source listed the same uid again while it was being stopped."""
    restart_refusal: tuple[str, str] | None = None
    """(reason, message) if the pod to restart was not admitted."""
    rejected: bool = False
    """The pod was never admitted: its status is final."""
    terminal_reason: str = ""
    """The reason why the kubelet ended the pod itself (``DeadlineExceeded``, …)."""
    terminal_message: str = ""
    disruption_reason: str = ""
    """The reason why the kubelet ended the pod for the node's sake; empty if it did not."""
    disruption_message: str = ""
    failures: tuple[Failure, ...] = ()
    """Failures of the last sync; the status shows them as waiting reasons."""
    errors: int = 0
    """Number of consecutive steps with a failure that is not transient."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step, input of the state machine."""

    finished: bool = False
    """Sync: the pod has ended, or must end. Other phases: the phase's goal is reached."""
    again: bool = False
    """The step changed something: take it again at once."""
    wake_at: float | None = None
    """Monotonic time of the next sync, if its cause is known (the end of a back-off)."""
    failures: tuple[Failure, ...] = field(default=())
    terminal_reason: str = ""
    terminal_message: str = ""
    decisions: tuple[Decision, ...] = field(default=(), compare=False)
    """Decisions of a sync about the sandbox and the containers, with their reasons."""
