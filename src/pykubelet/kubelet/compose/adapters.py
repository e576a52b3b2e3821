"""Small adapters between a component of one stage and the interface of another."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.http.http_get import HttpGet, HttpGetter, with_defaults
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.actuate.cri.plan.conversion import runtime_conditions
from pykubelet.kubelet.actuate.images.image_gc import ImageGc
from pykubelet.kubelet.actuate.node import RuntimeFacts
from pykubelet.kubelet.actuate.podruntime import PodRuntime
from pykubelet.kubelet.actuate.volumes import VolumeManager
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.observe.pleg import Pleg
from pykubelet.kubelet.observe.probes import ExecResult
from pykubelet.kubelet.report.metrics import (
    KubeletMetrics,
    Lifecycle,
    NodeCounts,
    PodConfig,
    ProbeSample,
    Protected,
    WorkingPods,
    count_runtime,
)
from pykubelet.kubelet.serve.local_socket import PodsView
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.resources.resize import Allocations, PendingResizes, ResizeState
from pykubelet.kubelet.types.runtime import ContainerState, RuntimeConditions, RuntimePod
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts

_LIFECYCLES = {
    Phase.SYNC: Lifecycle.SYNC,
    Phase.TERMINATING: Lifecycle.TERMINATING,
    Phase.TERMINATED: Lifecycle.TERMINATED,
    Phase.REMOVED: Lifecycle.TERMINATED,
}

_FINAL: Final = ("Succeeded", "Failed")
_HOOK_AGENT = "kube-lifecycle/1.36"


class HookHttp:
    """HTTP GET for lifecycle hooks; the caller enforces the hook's deadline."""

    def __init__(self, getter: HttpGetter) -> None:
        self._getter = getter

    async def __call__(self, request: HttpGet) -> None:
        await self._getter.get(HttpGet(request.url, with_defaults(request.headers, _HOOK_AGENT)), None)


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

    def __init__(self, metrics: KubeletMetrics) -> None:
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

    def __init__(self, metrics: KubeletMetrics) -> None:
        self._metrics = metrics

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None:
        self._metrics.probe(ProbeSample(ref, container, probe_type, result, seconds))


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

        ``changed`` is called with the previous and the new version of a pod whose spec has changed."""
        self._pods = pods
        self._changed = changed
        self._view = view
        self._follower = follower

    def set(self, pod: Pod) -> None:
        before = self._pods.by_uid(PodUID(pod.metadata.uid))
        self._pods.set(pod)
        if before is not None and before.spec != pod.spec:
            self._changed(before, pod)
        if before is None:
            self._view.refresh()
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

    ``sources_ready`` returns whether every source has been read. Until then the agent does not know its pods, and would
    take what all of them have in the runtime for garbage.
    """

    def __init__(
        self,
        *,
        runtime: PodRuntime,
        images: ImageGc,
        pods: PodManager,
        workers: PodWorkers,
        sources_ready: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._pods = pods
        self._workers = workers
        self._sources_ready = sources_ready

    async def reclaim(self, what: Collection[Reclaim]) -> None:
        """Remove dead containers, also those of pods that have ended, unused images, or both."""
        if Reclaim.CONTAINERS in what and self._sources_ready():
            await self._runtime.gc(self._with_worker, ended=self._ended)
        if Reclaim.IMAGES in what:
            await self._images.remove_unused()

    def _with_worker(self) -> frozenset[PodUID]:
        return frozenset(self._workers.known)

    def _ended(self) -> frozenset[PodUID]:
        """Return the pods that have ended and whose end the API server has recorded.

        Otherwise containers are the only record of it, as they always are for a static pod: without them, the pod would
        run again after a restart of the agent.
        """
        ended = (state.ref.uid for state in self._workers.states if state.phase is Phase.TERMINATED)
        known = (self._pods.by_uid(uid) for uid in ended)
        return frozenset(ref_of(pod).uid for pod in known if pod is not None and _is_recorded(pod))


def _is_recorded(pod: Pod) -> bool:
    return not is_static(pod) and pod.status.phase in _FINAL


class ResizeStates:
    """How far the resizes of pods have progressed, for their status."""

    def __init__(self, pending: PendingResizes, allocations: Allocations) -> None:
        self._pending = pending
        self._allocations = allocations

    def __call__(self, uid: PodUID) -> ResizeState:
        return ResizeState(self._pending.get(uid), self._allocations.progress(uid))


class NodeCounter(Struct, frozen=True, kw_only=True):
    """Counts the pods, containers and volumes on the node, for a scrape."""

    pods: PodManager
    workers: PodWorkers
    pleg: Pleg
    pleg_meter: PlegMeter
    volumes: VolumeManager
    cgroups: QosLevels
    csi: "CsiParts | None"

    def __call__(self) -> NodeCounts:
        found = node_counts(self.pods, self.workers.states, self.pleg.pods.values(), self.pleg_meter.last)
        plugins = self.csi.drivers.counts() if self.csi is not None else {}
        memory = self.cgroups.protected()
        protected = None if memory is None else Protected(min=memory.min or 0, low=memory.low or 0)
        return replace(found, volumes=self.volumes.counts(), plugins=plugins, protected=protected)


def node_counts(
    pods: PodManager, states: Iterable[WorkerState], listed: Iterable[RuntimePod], pleg_last_seen: Seconds
) -> NodeCounts:
    """Count the pods and containers on the node, for a scrape."""
    known = list(states)
    running, containers = count_runtime(listed)
    active = [s.pod for s in known if s.pod is not None and s.wanted and s.phase is Phase.SYNC]
    return NodeCounts(
        desired_pods=Counter(is_static(pod) for pod in pods.pods()),
        mirror_pods=len(pods.mirrors()),
        ephemeral_containers=sum(len(pod.spec.ephemeral_containers) for pod in pods.pods()),
        active_pods=Counter(is_static(pod) for pod in active),
        working_pods=Counter(_working(state) for state in known),
        running_pods=running,
        running_containers=containers,
        pleg_last_seen=pleg_last_seen,
    )


def _working(state: WorkerState) -> WorkingPods:
    lifecycle = _LIFECYCLES[state.phase]
    if state.pod is None:
        return WorkingPods(lifecycle, PodConfig.RUNTIME_ONLY, "unknown")
    config = PodConfig.DESIRED if state.wanted else PodConfig.ORPHAN
    return WorkingPods(lifecycle, config, "true" if is_static(state.pod) else "")


class ShutdownWorkers:
    """The pod workers, as a shutdown of the machine ends their pods."""

    def __init__(self, workers: PodWorkers) -> None:
        self._workers = workers

    def running(self) -> list[Pod]:
        """Return the pods whose containers may run, those that are being stopped included."""
        return [state.pod for state in self._workers.states if state.pod is not None and lifecycle.may_run(state)]

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Stop the pod and fail it with this reason."""
        self._workers.fail(uid, reason, message, grace_seconds)

    def released(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more, and its volumes and cgroup are released."""
        state = self._workers.state(uid)
        return state is None or lifecycle.is_released(state)
