"""What one sync of a pod has done so far; its outcome is made of it at the end."""

from dataclasses import dataclass, field

from pykubelet.kubelet.types.outcome import Failure, Outcome


@dataclass(slots=True)
class SyncReport:
    """Filled as the sync goes on."""

    changed: bool = False
    failures: list[Failure] = field(default_factory=list)
    wake_at: float | None = None
    started: list[str] = field(default_factory=list)

    def wake(self, at: float | None) -> None:
        """The pod should be synced again at that monotonic time at the latest; None: no need."""
        if at is not None:
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)

    def outcome(self) -> Outcome:
        """All of it."""
        return Outcome(self.changed, tuple(self.failures), self.wake_at, tuple(self.started))
