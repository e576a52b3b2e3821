"""Clock, events, timeline and metrics: the recorders that most components need, passed as one value."""

from typing import Generic, TypeVar

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.kubelet.types.reports.events import EventRecorder
from pykubelet.kubelet.types.reports.timeline import Timeline

M_co = TypeVar("M_co", covariant=True)
N = TypeVar("N")


class Telemetry(Struct, Generic[M_co], frozen=True, kw_only=True):
    """The recorders of a component; ``M_co`` is the component's own protocol of metrics."""

    clock: Clock
    events: EventRecorder
    timeline: Timeline
    metrics: M_co

    def measured_by(self, metrics: N) -> "Telemetry[N]":
        """Return the same recorders with other metrics."""
        return Telemetry(clock=self.clock, events=self.events, timeline=self.timeline, metrics=metrics)
