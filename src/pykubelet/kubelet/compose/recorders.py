"""Composition of the recorders, which all stages use: clock, events, timeline, metrics and journal."""

from typing import TypeVar

from msgspec import Struct

from pykubelet.base import tracing
from pykubelet.base.clock import Clock
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.report.history import History, HistoryDeps, StartTimes
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.timeline import PodTimelines, TracedTimeline
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.timeline import Timeline
from pykubelet.linux import cgroups, system

M = TypeVar("M")


class Recorders(Struct, frozen=True, kw_only=True):
    """The components of the stage report that the other stages report to; built first."""

    clock: Clock
    events: EventLog
    timelines: PodTimelines
    metrics: KubeletMetrics
    journal: DecisionJournal
    starts: StartTimes
    history: History
    timeline: Timeline
    """Receiver of the steps of starts: ``timelines``, and spans if they are recorded."""

    def telemetry(self, metrics: M) -> Telemetry[M]:
        """Return them as the value that components take, with the metrics of their subject."""
        return Telemetry(clock=self.clock, events=self.events, timeline=self.timeline, metrics=metrics)


def build_recorders(settings: Settings, pods: PodManager, clock: Clock) -> Recorders:
    """Build the recorders. ``pods`` has the pods that events are about."""
    timelines = PodTimelines(clock)
    metrics = KubeletMetrics(
        node_name=settings.node_name, clock=clock, setup_seconds=timelines.setup_seconds, booted_at=system.boot_time
    )
    metrics.node.cgroup_version(cgroups.detect().version)
    events, starts = EventLog(clock=clock, node_name=settings.node_name, find_pod=pods.by_uid), StartTimes()
    telemetry = Telemetry(clock=clock, events=events, timeline=timelines, metrics=metrics.node)
    history = History(
        HistoryDeps(directory=settings.root_dir, events=events, timelines=timelines, starts=starts, telemetry=telemetry)
    )
    return Recorders(
        clock=clock,
        events=events,
        timelines=timelines,
        metrics=metrics,
        journal=DecisionJournal(clock),
        starts=starts,
        history=history,
        timeline=TracedTimeline(timelines, clock) if tracing.recording() else timelines,
    )
