"""Builds one agent: the foundation, the stages, what reloads them, and the servers, which show all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from pathlib import Path

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.actuate.volumes import SWAPPED_VOLUMES, memory_volumes_may_swap
from pykubelet.kubelet.compose.adapters import HungCalls, NodeCounter
from pykubelet.kubelet.compose.foundation import Foundation, build_foundation
from pykubelet.kubelet.compose.live_settings.check_settings import check_reload
from pykubelet.kubelet.compose.live_settings.live_parts import live_parts
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.compose.serve import Servers, build_serve
from pykubelet.kubelet.compose.stages import Stages, build_stages
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import post_periodic_retries
from pykubelet.kubelet.desired.admission import Admission
from pykubelet.kubelet.observe.runtime_health import RuntimeHealth
from pykubelet.kubelet.reload.config_input import ConfigInput
from pykubelet.kubelet.reload.config_reloader import ConfigReloader
from pykubelet.kubelet.report.metrics import CountsCollector
from pykubelet.kubelet.serve.common.binding import Listen, bind
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, EventRecorder, Reason
from pykubelet.linux.memory_trim import trim_periodically

Parts = dict[str, Coroutine[None, None, None]]


class EnforcementEvents:
    """Reports as events of the node which limits of all pods and of daemons are written."""

    def __init__(self, levels: QosLevels, events: EventRecorder) -> None:
        self._levels = levels
        self._events = events
        levels.retried.subscribe(self._retried)

    def started(self, enforced: list[str]) -> None:
        """Report what was written at the start, given as the texts of events, and what was not."""
        for text in enforced:
            self._events.event(None, NORMAL, Reason.NODE_ALLOCATABLE_ENFORCED, text)
        if self._levels.unenforced is not None:
            self._events.event(None, WARNING, Reason.FAILED_NODE_ALLOCATABLE_ENFORCEMENT, self._levels.unenforced)

    def _retried(self, worked: bool, text: str) -> None:
        reason = Reason.NODE_ALLOCATABLE_ENFORCED if worked else Reason.FAILED_NODE_ALLOCATABLE_ENFORCEMENT
        self._events.event(None, NORMAL if worked else WARNING, reason, text)


class AgentStart(Struct, frozen=True, kw_only=True):
    """The first steps of an agent."""

    actuators: Actuators
    health: RuntimeHealth
    admission: Admission
    recorders: Recorders
    enforcement: EnforcementEvents
    root: Path
    """The agent's directory, in which volumes are."""

    async def run(self) -> None:
        """Read what exists on the node; what is nearest to the runtime comes first."""
        actuators, events = self.actuators, self.recorders.events
        async with asyncio.TaskGroup() as group:
            group.create_task(self.recorders.history.load(), name="load-history")
            await self.health.check()
            enforced = await actuators.resources.levels.start()
        existing = await actuators.pod_resources.pods_before()
        await actuators.runtime.allocations.load(existing)
        await actuators.runtime.restarts.load(existing)
        await actuators.users.load(existing)
        self.admission.admitted_before(existing)
        events.event(None, NORMAL, Reason.STARTING, "Starting kubelet.")
        for reason, text in await blocking.call("start-up", _faults, actuators.node, self.root):
            events.event(None, WARNING, reason, text)
        self.enforcement.started(enforced)


class Agent(Struct, frozen=True, kw_only=True):
    """An agent that is ready to start."""

    recorders: Recorders
    start: AgentStart
    """To be run before the core tasks."""
    servers: Servers
    hung_calls: HungCalls
    """The listener for blocking calls that do not respond."""
    parts: Callable[[], Parts]
    """Returns the core tasks by name; each is to be run until the agent ends."""
    closers: tuple[Callable[[], Awaitable[None]], ...]
    """Close the connections; called in reverse order."""


def build_agent(settings: Settings, clock: Clock, given: ConfigInput | None = None, *, listen: Listen = bind) -> Agent:
    """Build all components of one agent. Nothing runs yet, and nothing is changed on the machine.

    ``given``: the files of the configuration; None: there are none, and it never changes. ``listen`` returns the
    servers' sockets.

    Raises PykubeletError for an invalid configuration.
    """
    foundation = build_foundation(settings, clock)
    stages = build_stages(foundation)
    cluster = stages.cluster
    reloader = ConfigReloader(
        given=given or ConfigInput.fixed(settings.config),
        live=foundation.live,
        parts=(*live_parts(stages), *(cluster.live if cluster is not None else ())),
        check=partial(check_reload, settings),
        telemetry=foundation.recorders.telemetry(foundation.recorders.metrics.reloads),
    )
    servers = build_serve(foundation, stages, configuration=reloader.view, listen=listen)
    _count_components(foundation, stages)
    return Agent(
        recorders=foundation.recorders,
        start=_start(foundation, stages),
        servers=servers,
        hung_calls=HungCalls(foundation.tables.pods.by_uid, foundation.recorders.events),
        parts=partial(_core_tasks, foundation, stages, servers=servers, reloader=reloader),
        closers=_closers(foundation, stages),
    )


def _start(foundation: Foundation, stages: Stages) -> AgentStart:
    return AgentStart(
        actuators=stages.actuators,
        health=stages.observers.health,
        admission=stages.desired.admission,
        recorders=foundation.recorders,
        enforcement=EnforcementEvents(stages.actuators.resources.levels, foundation.recorders.events),
        root=foundation.settings.root_dir,
    )


def _count_components(foundation: Foundation, stages: Stages) -> None:
    """Register the numbers that are counted when the metrics are read."""
    actuators, observers = stages.actuators, stages.observers
    counter = NodeCounter(
        pods=foundation.tables.pods,
        workers=foundation.tables.workers,
        pleg=observers.pleg,
        pleg_meter=observers.pleg_meter,
        volumes=actuators.volumes.manager,
        cgroups=actuators.resources.levels,
        csi=actuators.volumes.csi,
    )
    CountsCollector(counter, foundation.recorders.metrics.registry)


def _core_tasks(foundation: Foundation, stages: Stages, *, servers: Servers, reloader: ConfigReloader) -> Parts:
    actuators, observers, control = stages.actuators, stages.observers, stages.control
    clock, cluster = foundation.recorders.clock, stages.cluster
    return {
        "configuration": reloader.run(),
        "runtime-health": observers.health.run(),
        "resources": actuators.resources.levels.run(),
        "probes": observers.probes.manager.run(),
        "workers": control.workers.run(),
        "pleg": observers.pleg.run(),
        "sync-loop": control.loop.run(),
        "resizes": post_periodic_retries(clock, foundation.tables.queue.post),
        "sources": stages.desired.sources.run(),
        "housekeeping": control.housekeeping.run(),
        "pressure": observers.eviction.run(),
        "image-gc": actuators.images.gc.run(),
        "log-rotation": actuators.logs.run(),
        "history": foundation.recorders.history.run(partial(_desired_uids, foundation)),
        "upkeep": trim_periodically(clock),
        "usage": observers.usage.run(),
        "node-shutdown": observers.shutdown.run(),
        **servers.parts(),
        **(cluster.parts() if cluster is not None else {"node-addresses": stages.addresses.run()}),
    }


def _desired_uids(foundation: Foundation) -> Collection[PodUID] | None:
    """Return the desired pods; None while the sources have not been read."""
    tables = foundation.tables
    return tables.mux.uids().union(tables.pods.uids()) if tables.mux.all_ready() and tables.queue.empty() else None


def _closers(foundation: Foundation, stages: Stages) -> tuple[Callable[[], Awaitable[None]], ...]:
    clients = foundation.clients
    closing = (
        clients.cri.close,
        clients.image_cri.close,
        foundation.http.close,
        stages.observers.probes.handlers.close,
    )
    return (foundation.access.close, *closing) if foundation.access is not None else closing


def _faults(node: NodeFacts, root: Path) -> list[tuple[str, str]]:
    """Return reasons and texts of warnings. Blocks briefly."""
    found = []
    fault = node.resolv_conf.fault()
    if fault is not None:
        found.append((Reason.CHECK_LIMITS_FOR_RESOLV_CONF, fault))
    if memory_volumes_may_swap(root):
        found.append((Reason.POSSIBLE_MEMORY_BACKED_VOLUMES_ON_DISK, SWAPPED_VOLUMES))
    return found
