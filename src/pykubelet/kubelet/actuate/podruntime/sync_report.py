"""Collects the results of one pod sync while it runs."""

from msgspec import Struct, field

from pykubelet.kubelet.types.outcome import Failure, Outcome
from pykubelet.kubelet.types.reports.decisions import Decision


class SyncReport(Struct):
    """Results of a pod sync so far: changes, failures, next wake-up time and started containers."""

    changed: bool = False
    failures: list[Failure] = field(default_factory=list)
    wake_at: float | None = None
    started: list[str] = field(default_factory=list)
    decisions: tuple[Decision, ...] = ()

    def wake(self, at: float | None) -> None:
        """Request the next sync at this monotonic time at the latest; None requests nothing."""
        if at is not None:
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)

    def outcome(self) -> Outcome:
        """Return the outcome of the sync."""
        return Outcome(self.changed, tuple(self.failures), self.wake_at, tuple(self.started), self.decisions)
