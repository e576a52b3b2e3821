"""The composition root: builds every part from the settings, hands each what it needs, and runs them together.

With ``adapters.py`` the only module that knows more than one stage. One TaskGroup holds the core loops: if one of
them dies, all end and the process exits non-zero. Ending the agent leaves every pod running.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from pykubelet.base.clock import SystemClock
from pykubelet.base.http_get import HttpGetter
from pykubelet.base.journal import Journal
from pykubelet.kubelet.actuate.assembly import ActuatorDeps, build_actuators
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents
from pykubelet.kubelet.actuate.cri.health import runtime_conditions
from pykubelet.kubelet.adapters import DesiredPods, HookHttp, PlegMeter, ProbeExec, ProbeMeter, node_counts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping
from pykubelet.kubelet.control.sync.loop import PodsAffected, RuntimeRecovered
from pykubelet.kubelet.control.sync.ports import LoopDeps
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.ports import WorkerDeps
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import ManifestStates, PodMux, Sources, sources_config
from pykubelet.kubelet.node_view import NodeView, build_servers
from pykubelet.kubelet.observe.pleg import Pleg, PlegDeps
from pykubelet.kubelet.observe.probes import ProbeDeps, ProbeHandlers, ProbeManager
from pykubelet.kubelet.observe.runtimehealth import RuntimeHealth, RuntimeHealthDeps
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.metrics import KubeletMetrics, NodeCounts
from pykubelet.kubelet.report.server import HealthCheck, LocalDeps, PodsView
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.types.events import NORMAL, Reason
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.linux import cgroups


async def run_kubelet(settings: Settings) -> None:
    """Run the agent until cancelled; every pod runs on.

    Errors of the configuration come as ``PykubeletError``; a core loop that dies ends all, with an ExceptionGroup.
    """
    async with AsyncExitStack() as stack:
        options = CriOptions(request_timeout=settings.seconds(settings.config.runtime_request_timeout))
        kubelet = Kubelet(settings, options)
        for close in (kubelet.cri.close, kubelet.image_cri.close, kubelet.http.close, kubelet.prober.close):
            stack.push_async_callback(close)
        await kubelet.run()


class Kubelet:
    """All parts of one agent, in the order of a pod's way."""

    def __init__(self, settings: Settings, options: CriOptions) -> None:
        clock = SystemClock()
        self._settings = settings
        self.clock = clock
        self.pods = PodManager()
        self.objects = LocalObjects()
        self.metrics = KubeletMetrics(settings.node_name, self._counts, clock)
        options = replace(options, observe=self.metrics.runtime_operation)
        self.cri = CriClient.connect(settings.runtime_endpoint, options)
        self.image_cri = CriClient.connect(settings.image_endpoint or settings.runtime_endpoint, options)
        self.http = HttpGetter()
        self.timeline = PodTimelines(clock)
        self.events = EventLog(clock, settings.node_name, self.pods.by_uid)
        self.states = ManifestStates(self.events)
        self.actuators = build_actuators(
            settings,
            ActuatorDeps(
                self.cri,
                self.image_cri,
                self.objects,
                HookHttp(self.http),
                self.events,
                self.timeline,
                clock,
                self.metrics.image_pulled,
            ),
        )
        self.metrics.cgroup_version(cgroups.detect().version)
        self.status = StatusManager(clock, self.actuators.node)
        self.status.subscribe(self.metrics.status_changed)
        self.view = PodsView(self.status, self.pods.pods, clock)
        self.journal = Journal()
        self.prober = ProbeHandlers(ProbeExec(self.cri))
        self._build_observers()
        self._build_control()
        self._build_servers()

    def _build_observers(self) -> None:
        runtime = self.actuators.runtime
        self.health = RuntimeHealth(
            RuntimeHealthDeps(self._ask_runtime, lambda: self.loop.post(RuntimeRecovered()), self.events, self.clock)
        )
        self.probes = ProbeManager(
            ProbeDeps(
                self.prober,
                lambda update: self.loop.post(update),
                self.events,
                ProbeMeter(self.metrics),
                self.clock,
                self.actuators.node.ips,
            )
        )
        self.pleg_meter = PlegMeter(self.metrics)
        self.pleg = Pleg(
            PlegDeps(
                runtime.list_pods,
                runtime.list_pod,
                RuntimeEvents(self.cri, self.clock).watch,
                lambda event: self.loop.post(event),
                self.clock,
                self.pleg_meter,
            )
        )

    def _build_control(self) -> None:
        runtime, holdings = self.actuators.runtime, self.actuators.holdings
        self.workers = PodWorkers(
            WorkerDeps(
                runtime,
                holdings,
                self.probes,
                self.status,
                self.events,
                self.timeline,
                self.clock,
                self.health,
                self.journal,
                self.metrics,
                self.pleg.poke,
            )
        )
        deps = LoopDeps(DesiredPods(self.pods, self.view), self.workers, self.timeline, holdings, runtime, self.clock)
        self.loop = SyncLoop(deps)
        config = sources_config(self._settings)
        self.mux = PodMux(config.names(), self.loop.post, self.clock)
        self.sources = Sources(config, self.mux, self.objects, self.states, self.clock)
        self.housekeeping = Housekeeping(deps, self.mux.all_ready)
        self.objects.subscribe(lambda keys: self.loop.post(PodsAffected(self.pods.using(keys))))

    def _build_servers(self) -> None:
        settings, node = self._settings, self.actuators.node
        stuck_after = 2 * settings.seconds(settings.config.sync_frequency)
        checks: dict[str, HealthCheck] = {
            "ping": lambda: None,
            "syncloop": lambda: "the sync loop does not take events" if self.loop.is_stuck(stuck_after) else None,
            "pleg": self.pleg.healthy,
            "runtime": self.health.healthy,
        }
        shown = NodeView(
            settings.node_name,
            self.cri,
            self.image_cri,
            node,
            self.states,
            self.objects,
            self.timeline,
            self.journal,
            self.health.healthy,
        )
        local = LocalDeps(self.view, self.events, shown, shown, checks, self.metrics, self.clock)
        self.local, self.healthz = build_servers(settings, local, self.metrics)

    async def run(self) -> None:
        """Start everything, nearest to the runtime first, and run until cancelled or one part dies."""
        await self.health.check()
        await self.actuators.resources.start()
        self.events.event(None, NORMAL, Reason.STARTING, "Starting kubelet.")
        parts = {
            "runtime-health": self.health.run(),
            "resources": self.actuators.resources.run(),
            "probes": self.probes.run(),
            "workers": self.workers.run(),
            "pleg": self.pleg.run(),
            "sync-loop": self.loop.run(),
            "sources": self.sources.run(),
            "housekeeping": self.housekeeping.run(),
            "local-api": self.local.run(),
        }
        if self._settings.config.healthz_port:
            parts["health-server"] = self.healthz.run()
        async with asyncio.TaskGroup() as group:
            for name, part in parts.items():
                group.create_task(part, name=name)

    async def _ask_runtime(self) -> RuntimeConditions:
        status = await self.cri.status()
        if not self.health.current().runtime_ready:
            self.actuators.node.learn(await self.cri.version(), status)
        return runtime_conditions(status)

    def _counts(self) -> NodeCounts:
        return node_counts(self.pods.pods(), self.workers.states(), self.pleg.pods.values(), self.pleg_meter.last)
