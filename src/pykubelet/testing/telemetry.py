"""`Telemetry` for components in tests: recorders that discard what the test does not look at."""

from typing import TypeVar

from pykubelet.base.clock import Clock
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.events import EventRecorder
from pykubelet.kubelet.types.reports.timeline import Step, Timeline
from pykubelet.models.core_v1 import Pod

M = TypeVar("M")


class NoEvents:
    """A recorder that discards all events."""

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None: ...


class NoTimeline:
    """A timeline that discards all steps."""

    def pod_seen(self, pod: Pod) -> None: ...

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None: ...

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None: ...


def telemetry(
    clock: Clock, metrics: M, *, events: EventRecorder | None = None, timeline: Timeline | None = None
) -> Telemetry[M]:
    """Return the recorders; those that are not given discard everything."""
    return Telemetry(clock=clock, events=events or NoEvents(), timeline=timeline or NoTimeline(), metrics=metrics)
