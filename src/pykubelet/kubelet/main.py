"""The composition root: builds all components from the settings, connects them, and runs them.

With ``compose/`` the only code that imports more than one stage. One TaskGroup runs the core loops: if one of them
fails, all end and the process exits with a non-zero status. Pods keep running when the agent ends.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace

from pykubelet.base import blocking
from pykubelet.base.clock import SystemClock
from pykubelet.base.http_get import HttpGetter
from pykubelet.base.journal import Journal
from pykubelet.kubelet.actuate.assembly import ActuatorDeps, build_actuators
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.actuate.cri.health import runtime_conditions
from pykubelet.kubelet.compose.adapters import DesiredPods, HookHttp, node_counts
from pykubelet.kubelet.compose.admission_node import AdmissionNode
from pykubelet.kubelet.compose.cgroup_driver import with_runtime_driver
from pykubelet.kubelet.compose.hung_calls import HungCalls
from pykubelet.kubelet.compose.kubelet_api import KubeletApi, KubeletApiDeps
from pykubelet.kubelet.compose.local_api import LocalApiView, build_servers
from pykubelet.kubelet.compose.node_mode import ClusterDeps, join, make_ready, open_access
from pykubelet.kubelet.compose.observers import ObserverDeps, Observers
from pykubelet.kubelet.compose.pressure import PressureParts, build_pressure
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping
from pykubelet.kubelet.control.sync.interfaces import LoopDeps
from pykubelet.kubelet.control.sync.loop import LoopEvent, PodsAffected, RuntimeRecovered, post_periodic_retries
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.interfaces import WorkerDeps
from pykubelet.kubelet.desired.admission import Admission, AdmissionDeps
from pykubelet.kubelet.desired.objects import LocalObjects, Objects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import ManifestStates, PodMux, Sources, sources_config
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.metrics import KubeletMetrics, NodeCounts
from pykubelet.kubelet.report.server import HealthCheck, LocalDeps, PodsView
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.types.events import NORMAL, Reason
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resize import ResizeState
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.kubelet.types.updates import Source
from pykubelet.linux import cgroups, memory, system
from pykubelet.linux.memory_trim import trim_periodically

_log = logging.getLogger(__name__)


async def run_kubelet(settings: Settings, failed: Callable[[], None]) -> None:
    """Run the agent until cancelled; pods keep running. ``failed`` is called as soon as a core task has failed.

    Raises PykubeletError for an invalid configuration, and an ExceptionGroup if a core task fails.
    """
    memory.limit_arenas()
    async with AsyncExitStack() as stack:
        settings = await with_runtime_driver(settings)
        options = CriOptions(request_timeout=settings.seconds(settings.config.runtime_request_timeout))
        await make_ready(settings, SystemClock())
        kubelet = Kubelet(settings, options)
        if kubelet.access is not None:
            stack.push_async_callback(kubelet.access.close)
        for close in (kubelet.cri.close, kubelet.image_cri.close, kubelet.http.close, kubelet.prober.close):
            stack.push_async_callback(close)
        await kubelet.run(failed)


async def _run_part(name: str, part: Coroutine[None, None, None], failed: Callable[[], None]) -> None:
    """Run a core task; report its failure at once, since the others may take long to end."""
    try:
        await part
    except Exception as error:
        _log.error("core task failed; stopping the agent", extra={"part": name, "error": str(error)})
        failed()
        raise


class Kubelet:
    """All components of one agent, built in the order of a pod's way."""

    def __init__(self, settings: Settings, options: CriOptions) -> None:
        clock = SystemClock()
        self._settings = settings
        self.clock = clock
        self.pods = PodManager()
        self.objects = LocalObjects()
        self.timeline = PodTimelines(clock)
        asked = self.timeline.setup_seconds, system.boot_time
        self.metrics = KubeletMetrics(settings.node_name, self._counts, clock, *asked)
        self.access = open_access(settings, self.objects, self.metrics, clock)
        self.reader: Objects = self.access.objects if self.access is not None else self.objects
        options = replace(options, observe=self.metrics.runtime_operation, meter=self.metrics.operations)
        self.cri = CriClient.connect(settings.runtime_endpoint, options)
        self.image_cri = CriClient.connect(settings.image_endpoint or settings.runtime_endpoint, options)
        self.http = HttpGetter()
        self.events = EventLog(clock, settings.node_name, self.pods.by_uid)
        self.states = ManifestStates(self.events)
        cluster = self.access.objects if self.access is not None else None
        deps = ActuatorDeps(
            cri=self.cri,
            image_cri=self.image_cri,
            objects=self.reader,
            http=HookHttp(self.http),
            events=self.events,
            timeline=self.timeline,
            clock=clock,
            image_pulled=self.metrics.image_pulled,
            image_collected=self.metrics.image_collected,
            cluster=cluster,
            meter=self.metrics.operations,
        )
        self.actuators = build_actuators(settings, deps)
        self.metrics.cgroup_version(cgroups.detect().version)
        if self.actuators.csi is not None:
            self.actuators.csi.drivers.on_call(self.metrics.csi_operation)
        self.status = StatusManager(clock, self.actuators.node, self._resize_state)
        self.status.subscribe(self.metrics.status_changed)
        self.view = PodsView(self.status, self.pods.pods, clock)
        self.journal = Journal()
        actuators, ask = self.actuators, self._runtime_conditions
        observers = Observers(
            ObserverDeps(
                cri=self.cri,
                actuators=actuators,
                metrics=self.metrics,
                events=self.events,
                clock=clock,
                ask_runtime=ask,
                post=self._post,
            )
        )
        self.health, self.probes, self.pleg = observers.health, observers.probes, observers.pleg
        self.pleg_meter, self.prober = observers.meter, observers.prober
        self._build_control()
        self._build_servers()

    def _build_control(self) -> None:
        runtime, pod_resources = self.actuators.runtime, self.actuators.pod_resources
        self.workers = PodWorkers(
            WorkerDeps(
                runtime=runtime,
                resources=pod_resources,
                probes=self.probes,
                status=self.status,
                events=self.events,
                timeline=self.timeline,
                clock=self.clock,
                conditions=self.health,
                journal=self.journal,
                meter=self.metrics,
                watch_closely=self.pleg.poke,
            )
        )
        desired = DesiredPods(self.pods, self.view, lambda: self.cluster, self.metrics.pod_changed)
        settings, actuators, clock, node = self._settings, self.actuators, self.clock, self.actuators.node
        measured = self.events, self.metrics, clock
        self.pressure = build_pressure(
            settings,
            PressureParts(self.image_cri, actuators, self.workers, lambda: self.kubelet_api.usage.summary(), *measured),
        )
        conditions = self.pressure.conditions
        admission_node = AdmissionNode(
            settings, node, lambda: self.cluster.node.node if self.cluster else None, conditions
        )
        self.admission = Admission(
            AdmissionDeps(
                node=admission_node.node,
                sysctl_refusal=admission_node.sysctl_refusal,
                active=self.workers.active,
                events=self.events,
                meter=self.metrics,
                allocations=runtime.allocations,
                clock=clock,
                swapping=actuators.resources.swapping,
            )
        )
        deps = LoopDeps(
            pods=desired,
            workers=self.workers,
            timeline=self.timeline,
            node_pods=pod_resources,
            garbage=runtime,
            admission=self.admission,
            clock=clock,
        )
        self.loop = SyncLoop(deps)
        config = sources_config(self._settings)
        names = config.names() | ({Source.API} if self.access else frozenset())
        self.mux = PodMux(names, self.loop.post, self.clock)
        self.sources = Sources(config, self.mux, self.objects, self.states, self.clock)
        self.housekeeping = Housekeeping(deps, self.mux.all_ready, self.metrics.orphans_swept)
        joined = ClusterDeps(
            pods=self.pods,
            mux=self.mux,
            statuses=self.status,
            events=self.events,
            node=node,
            image_cri=self.image_cri,
            conditions=self.health.current,
            pleg_fault=self.pleg.healthy,
            clock=clock,
            pressure=conditions,
            csi=actuators.csi,
        )
        self.cluster = join(self.access, joined, lambda uids: self.loop.post(PodsAffected(uids)))
        self.reader.subscribe(lambda keys: self.loop.post(PodsAffected(self.pods.using(keys))))

    def _build_servers(self) -> None:
        settings, node = self._settings, self.actuators.node
        stuck_after = 2 * settings.seconds(settings.config.sync_frequency)
        checks: dict[str, HealthCheck] = {
            "ping": lambda: None,
            "syncloop": lambda: "the sync loop is not handling events" if self.loop.is_stuck(stuck_after) else None,
            "pleg": self.pleg.healthy,
            "runtime": self.health.healthy,
        }
        name, fault, journal = settings.node_name, self.health.healthy, self.journal
        view = LocalApiView(
            name, self.cri, self.image_cri, node, self.states, self.objects, self.timeline, journal, fault
        )
        local = LocalDeps(
            pods=self.view,
            events=self.events,
            node=view,
            streams=view,
            checks=checks,
            meter=self.metrics,
            clock=self.clock,
            usage=lambda: self.kubelet_api.top(),
        )
        self.local, self.healthz = build_servers(settings, local, self.metrics)
        resources, sizes = self.actuators.resources, self.actuators.volumes.sizes
        api_deps = KubeletApiDeps(
            cri=self.cri,
            image_cri=self.image_cri,
            resources=resources,
            metrics=self.metrics,
            access=self.access,
            volumes=sizes,
        )
        self.kubelet_api = KubeletApi(settings, local, api_deps)

    async def run(self, failed: Callable[[], None]) -> None:
        """Start all components, those nearest to the runtime first; run until cancelled or a core task fails."""
        await self.health.check()
        await self.actuators.resources.start()
        existing = await self.actuators.pod_resources.pods_before()
        await self.actuators.runtime.allocations.load(existing)
        await self.actuators.users.load(existing)
        self.admission.admitted_before(existing)
        self.events.event(None, NORMAL, Reason.STARTING, "Starting kubelet.")
        if self._settings.config.cgroups_per_qos:
            text = "Updated Node Allocatable limit across pods"
            self.events.event(None, NORMAL, Reason.NODE_ALLOCATABLE_ENFORCED, text)
        parts = {
            "runtime-health": self.health.run(),
            "resources": self.actuators.resources.run(),
            "probes": self.probes.run(),
            "workers": self.workers.run(),
            "pleg": self.pleg.run(),
            "sync-loop": self.loop.run(),
            "resizes": post_periodic_retries(self.clock, self.loop.post),
            "sources": self.sources.run(),
            "housekeeping": self.housekeeping.run(),
            "local-api": self.local.run(),
            "pressure": self.pressure.run(),
            "image-gc": self.actuators.image_gc.run(),
            "log-rotation": self.actuators.logs.run(),
            "upkeep": trim_periodically(self.clock),
            **self.kubelet_api.parts(),
        }
        if self.cluster is not None:
            parts |= self.cluster.parts()
        if self._settings.config.healthz_port:
            parts["health-server"] = self.healthz.run()
        hung_calls = HungCalls(self.pods.by_uid, self.events)
        with blocking.on_hung(hung_calls):
            async with asyncio.TaskGroup() as group:
                for name, part in parts.items():
                    group.create_task(_run_part(name, part, failed), name=name)

    def _resize_state(self, uid: PodUID) -> ResizeState:
        return ResizeState(self.admission.pending_resize(uid), self.actuators.runtime.allocations.progress(uid))

    def _post(self, event: LoopEvent) -> None:
        self.loop.post(event)
        if isinstance(event, RuntimeRecovered) and self.cluster is not None:
            self.cluster.node.poke()

    async def _runtime_conditions(self) -> RuntimeConditions:
        status = await self.cri.status()
        if not self.health.current().runtime_ready:
            self.actuators.node.learn(await self.cri.version(), status)
        return runtime_conditions(status)

    def _counts(self) -> NodeCounts:
        csi, volumes = self.actuators.csi, self.actuators.volumes.counts()
        plugins = csi.drivers.counts() if csi is not None else {}
        found = node_counts(self.pods, self.workers.states(), self.pleg.pods.values(), self.pleg_meter.last)
        return replace(found, volumes=volumes, plugins=plugins)
