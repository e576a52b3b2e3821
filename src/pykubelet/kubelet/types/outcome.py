"""What came of an attempt to make a pod as wanted."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum


class SyncAction(StrEnum):
    """The steps that can fail on their own, named as in the reference."""

    CREATE_SANDBOX = "CreatePodSandbox"
    KILL_POD = "KillPod"
    KILL_CONTAINER = "KillContainer"
    START_CONTAINER = "StartContainer"
    INIT_CONTAINER = "InitContainer"
    RESIZE = "ResizePod"
    PREPARE = "PreparePod"
    """Cgroup, directories and volumes, which the reference does not count as a step of its own."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed step. ``reason`` is the waiting reason that the container shows (``ErrImagePull``, …)."""

    action: SyncAction
    target: str
    """The container's name, or the pod's for sandbox steps."""
    reason: str
    message: str
    transient: bool = False
    """It mends by waiting (back-off running, network not ready): retry soon, do not count it as an error."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came of preparing what a pod holds beside its containers."""

    failures: tuple[Failure, ...] = ()
    rest: Callable[[], Coroutine[None, None, tuple[Failure, ...]]] | None = None
    """Does what is left and tells its failures. The sandbox needs nothing of it, the containers need all of it; it may
    also be left undone, and is asked for again in the next sync."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one sync or kill of a pod."""

    changed: bool = False
    """Something in the runtime was changed, so its state should be read again at once."""
    failures: tuple[Failure, ...] = ()
    wake_at: float | None = None
    """Monotonic time at which the pod should be synced again for a known cause (a back-off ends); None: no need."""
    started: tuple[str, ...] = field(default=())
    """Names of the containers that were started."""

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def transient(self) -> bool:
        """All failures mend by waiting."""
        return bool(self.failures) and all(f.transient for f in self.failures)
