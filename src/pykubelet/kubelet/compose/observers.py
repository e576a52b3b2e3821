"""Composition of the stage observe: runtime health, probes and PLEG, which all post to the sync loop."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents
from pykubelet.kubelet.compose.adapters import PlegMeter, ProbeExec, ProbeMeter
from pykubelet.kubelet.control.sync.loop import LoopEvent, RuntimeRecovered
from pykubelet.kubelet.observe.pleg import Pleg, PlegDeps
from pykubelet.kubelet.observe.pleg.interfaces import WatchEvents
from pykubelet.kubelet.observe.probes import ProbeDeps, ProbeHandlers, ProbeManager
from pykubelet.kubelet.observe.runtimehealth import RuntimeHealth, RuntimeHealthDeps
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.kubelet.types.runtime_events import RuntimeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverDeps:
    """Dependencies of the stage observe."""

    cri: CriClient
    actuators: Actuators
    metrics: KubeletMetrics
    events: EventRecorder
    clock: Clock
    ask_runtime: Callable[[], Awaitable[RuntimeConditions]]
    post: Callable[[LoopEvent], None]


class Observers:
    """The components of the stage observe."""

    def __init__(self, deps: ObserverDeps) -> None:
        runtime, node, clock, post = deps.actuators.runtime, deps.actuators.node, deps.clock, deps.post
        self.prober = ProbeHandlers(ProbeExec(deps.cri))

        def recovered() -> None:
            post(RuntimeRecovered())

        self.health = RuntimeHealth(
            RuntimeHealthDeps(ask=deps.ask_runtime, recovered=recovered, events=deps.events, clock=clock)
        )
        self.probes = ProbeManager(
            ProbeDeps(
                prober=self.prober,
                on_change=post,
                events=deps.events,
                metrics=ProbeMeter(deps.metrics),
                clock=clock,
                host_ips=node.ips,
            )
        )
        self.meter = PlegMeter(deps.metrics)
        watch = measured_events(RuntimeEvents(deps.cri, clock).watch, deps.metrics, clock)
        self.pleg = Pleg(
            PlegDeps(
                list_pods=runtime.list_pods,
                list_pod=runtime.list_pod,
                watch_events=watch,
                on_event=post,
                on_recovered=recovered,
                clock=clock,
                metrics=self.meter,
            )
        )


def measured_events(watch: WatchEvents, metrics: KubeletMetrics, clock: Clock) -> WatchEvents:
    """Wrap the runtime's events with metrics of their delay; a stream counts as open with its first event."""

    async def watched(deliver: Callable[[RuntimeEvent], None]) -> None:
        works = False

        def taken(event: RuntimeEvent) -> None:
            nonlocal works
            if not works:
                works = True
                metrics.event_stream_works()
            metrics.event_received(clock.now() - event.time)
            deliver(event)

        await watch(taken)

    return watched
