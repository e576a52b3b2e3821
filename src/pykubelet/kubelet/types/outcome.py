"""The result of one sync of a pod: changes, failures, and when to sync it again."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.reports.decisions import Decision


class SyncAction(StrEnum):
    """The steps of a sync that can fail, named as in the Go kubelet."""

    CREATE_SANDBOX = "CreatePodSandbox"
    KILL_POD = "KillPod"
    KILL_CONTAINER = "KillContainer"
    START_CONTAINER = "StartContainer"
    INIT_CONTAINER = "InitContainer"
    RESIZE = "ResizePod"
    PREPARE = "PreparePod"
    """Cgroup, directories and volumes; the Go kubelet has no step for them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed step. ``reason`` is the waiting reason in the container's status (``ErrImagePull``, …)."""

    action: SyncAction
    target: str
    """The container's name, or the pod's for sandbox steps."""
    reason: str
    message: str
    transient: bool = False
    """It resolves by itself (a back-off, a network that is not ready): retry soon, do not count it as an error."""
    retry_at: Seconds | None = field(default=None, compare=False)
    """Monotonic time of the end of its back-off, if it has one."""


class PreparationResult(Struct, frozen=True):
    """The result of the preparation of a pod's cgroup, directories and volumes."""

    failures: tuple[Failure, ...] = ()
    rest: Callable[[], Coroutine[None, None, tuple[Failure, ...]]] | None = None
    """Finishes deferred preparations and returns its failures. The containers need them, the sandbox does not. A
    caller may skip it; the next sync prepares the same again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one sync or kill of a pod."""

    changed: bool = False
    """Whether the runtime's state was changed and should be read again at once."""
    failures: tuple[Failure, ...] = ()
    wake_at: float | None = None
    """Monotonic time of the next sync, if its cause is known (the end of a back-off)."""
    started: tuple[str, ...] = field(default=())
    """Names of the containers that were started."""
    decisions: tuple[Decision, ...] = field(default=(), compare=False)
    """Decisions about the pod's sandbox and containers, with their reasons."""

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def transient(self) -> bool:
        """Whether the sync failed, and all its failures are transient."""
        return bool(self.failures) and all(f.transient for f in self.failures)
