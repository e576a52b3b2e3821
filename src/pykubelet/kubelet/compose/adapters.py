"""Small adapters between a component of one stage and the interface of another."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.thread_calls import HungCall
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.actuate.cri.plan.conversion import runtime_conditions
from pykubelet.kubelet.actuate.host import RuntimeFacts
from pykubelet.kubelet.actuate.images.image_gc import ImageGc
from pykubelet.kubelet.actuate.podruntime import PodRuntime
from pykubelet.kubelet.actuate.volumes import VolumeManager
from pykubelet.kubelet.control.workers import WorkerTable
from pykubelet.kubelet.control.workers.plan.counts import count_active, count_working
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.observe.eviction.plan.reclaimable import without_need_of_containers
from pykubelet.kubelet.observe.pleg import Pleg
from pykubelet.kubelet.observe.pleg.pleg_interfaces import WatchEvents
from pykubelet.kubelet.observe.probes import ExecResult
from pykubelet.kubelet.report.events.plan.hung_calls import hung_message, pod_of_call
from pykubelet.kubelet.report.metrics import (
    NodeCounts,
    PlegMetrics,
    ProbeMetrics,
    ProbeSample,
    ProtectedMemory,
    count_ephemeral,
    count_runtime,
)
from pykubelet.kubelet.serve.local_api import PodsView
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.resources.resize import Allocations, PendingResizes, ResizeState
from pykubelet.kubelet.types.runtime import ContainerState, RuntimeConditions
from pykubelet.kubelet.types.runtime_events import RuntimeEvent
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts


class ProbeExec:
    """Execution of commands for exec probes."""

    def __init__(self, cri: CriClient) -> None:
        self._cri = cri

    async def __call__(self, container: ContainerID, command: Sequence[str], timeout: Seconds) -> ExecResult:
        try:
            reply = await self._cri.exec_sync(container, command, timeout)
        except CriTimeout as error:
            # A timeout is a failure of the probe; other errors leave the container's state unknown.
            raise TimeoutError(str(error)) from error
        return ExecResult(reply.exit_code, reply.stdout, reply.stderr)


class PlegMeter:
    """Metrics of PLEG, as the Go kubelet has them."""

    def __init__(self, metrics: PlegMetrics) -> None:
        self._metrics = metrics
        self._interval: Seconds | None = None
        self.last: Seconds = 0.0
        """Unix time of the last successful list of all pods."""

    def relist_duration(self, seconds: Seconds) -> None:
        self._metrics.pleg_relist(seconds, self._interval)
        self._interval = None

    def relist_interval(self, seconds: Seconds) -> None:
        self._interval = seconds

    def pod_relist_duration(self, seconds: Seconds) -> None:
        self._metrics.pleg_pod_read(seconds)

    def last_seen(self, unix_time: Seconds) -> None:
        self.last = unix_time

    def running(self, pods: int, containers: Mapping[ContainerState, int]) -> None:
        """Do nothing: running pods are counted at the scrape, from PLEG's last list."""

    def stream_error(self) -> None:
        self._metrics.event_stream_failed()


class ProbeMeter:
    """Metrics of probes, as the Go kubelet has them."""

    def __init__(self, metrics: ProbeMetrics) -> None:
        self._metrics = metrics

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None:
        self._metrics.probe(ProbeSample(ref, container, probe_type, result, seconds))


def measured_events(watch: WatchEvents, metrics: PlegMetrics, clock: Clock) -> WatchEvents:
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


class PodFollower(Protocol):
    """The part of node mode that follows the desired pods, implemented by ``cluster/followers.py``."""

    def pod_seen(self, pod: Pod) -> None:
        """Handle a new or changed pod of a source."""

    def pod_admitted(self, pod: Pod) -> None:
        """Handle the admission of a pod."""

    def pod_gone(self, uid: PodUID) -> None:
        """Handle the removal of a pod from its source."""


class DesiredPods:
    """The pod manager, which reports every change to the local API and, in a cluster, to node mode."""

    def __init__(
        self,
        *,
        pods: PodManager,
        view: PodsView,
        follower: PodFollower | None,
        changed: Callable[[Pod, Pod], None],
    ) -> None:
        """``follower`` is None without a cluster.

        ``changed`` is called with the previous and the new version of a pod."""
        self._pods = pods
        self._changed = changed
        self._view = view
        self._follower = follower

    def set(self, pod: Pod) -> None:
        before = self._pods.by_uid(PodUID(pod.metadata.uid))
        self._pods.set(pod)
        if before is None:
            self._view.refresh()
        else:
            self._changed(before, pod)
        if self._follower is not None:
            self._follower.pod_seen(pod)

    def admitted(self, pod: Pod) -> None:
        if self._follower is not None:
            self._follower.pod_admitted(pod)

    def remove(self, uid: PodUID) -> None:
        self._pods.remove(uid)
        self._view.refresh()
        if self._follower is not None:
            self._follower.pod_gone(uid)

    def uids(self) -> Iterable[PodUID]:
        return self._pods.uids()


class RuntimeStatusReader:
    """Reader of the runtime's conditions; passes on the facts about the runtime whenever it has started."""

    def __init__(self, cri: CriClient, facts: RuntimeFacts) -> None:
        self._cri = cri
        self._facts = facts
        self._was_ready = False

    async def __call__(self) -> RuntimeConditions:
        """Ask the runtime. Raises the errors of ``base.errors`` if it does not respond."""
        was_ready, self._was_ready = self._was_ready, False
        status = await self._cri.status()
        if not was_ready:
            self._facts.learn(await self._cri.version(), status)
        conditions = runtime_conditions(status)
        self._was_ready = conditions.runtime_ready
        return conditions


class DiskReclaimer:
    """The reclaim of disk space that no pod needs.

    ``sources_ready`` returns whether every source has been read: until then the agent does not know its pods, and would
    take what all of them have in the runtime for garbage. ``wanted`` returns the pods of all sources.
    """

    def __init__(
        self,
        *,
        runtime: PodRuntime,
        images: ImageGc,
        pods: PodManager,
        workers: WorkerTable,
        sources_ready: Callable[[], bool],
        wanted: Callable[[], frozenset[PodUID]],
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._pods = pods
        self._workers = workers
        self._sources_ready = sources_ready
        self._sourced = wanted

    async def reclaim(self, what: Collection[Reclaim]) -> None:
        """Remove dead containers, also those of pods that have ended, unused images, or both."""
        if Reclaim.CONTAINERS in what:
            await self._runtime.gc(self._wanted if self._sources_ready() else None, ended=self._ended)
        if Reclaim.IMAGES in what:
            await self._images.remove_unused()

    def _wanted(self) -> frozenset[PodUID]:
        return frozenset(self._workers.known) | self._sourced()

    def _ended(self) -> frozenset[PodUID]:
        known = (self._pods.by_uid(uid) for uid in self._workers.terminated())
        return without_need_of_containers((pod for pod in known if pod is not None), self._workers.evicted())


class ResizeStates:
    """Progress of the resizes of pods, for their status."""

    def __init__(self, pending: PendingResizes, allocations: Allocations) -> None:
        self._pending = pending
        self._allocations = allocations

    def __call__(self, uid: PodUID) -> ResizeState:
        return ResizeState(self._pending.get(uid), self._allocations.progress(uid))


class NodeCounter(Struct, frozen=True, kw_only=True):
    """Counts the pods, containers and volumes on the node, for a scrape."""

    pods: PodManager
    workers: WorkerTable
    pleg: Pleg
    pleg_meter: PlegMeter
    volumes: VolumeManager
    cgroups: QosLevels
    csi: "CsiParts | None"

    def __call__(self) -> NodeCounts:
        pods, states = self.pods.pods(), list(self.workers.states)
        running, containers = count_runtime(self.pleg.pods.values())
        memory = self.cgroups.protected()
        return NodeCounts(
            desired_pods=Counter(is_static(pod) for pod in pods),
            mirror_pods=len(self.pods.mirrors()),
            ephemeral_containers=count_ephemeral(pods),
            active_pods=count_active(states),
            working_pods=count_working(states),
            running_pods=running,
            running_containers=containers,
            pleg_last_seen=self.pleg_meter.last,
            volumes=self.volumes.counts(),
            plugins=self.csi.drivers.counts() if self.csi is not None else {},
            protected=None if memory is None else ProtectedMemory(min=memory.min or 0, low=memory.low or 0),
        )


class HungCalls:
    """The listener for ``blocking.on_hung``: an event for the pod whose blocking call is not responding."""

    def __init__(self, by_uid: Callable[[PodUID], Pod | None], events: EventRecorder) -> None:
        self._by_uid = by_uid
        self._events = events

    def __call__(self, hung: HungCall) -> None:
        """Record an event of the pod. Calls of components and of removed pods are only logged and counted elsewhere."""
        uid = pod_of_call(hung.owner)
        pod = self._by_uid(uid) if uid is not None else None
        if pod is not None:
            message = hung_message(hung.owner, hung.deadline)
            self._events.event(ref_of(pod), WARNING, Reason.FAILED_SYNC, message)
