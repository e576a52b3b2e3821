"""Interfaces of the other stages that the sync loop calls."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from msgspec import Struct

from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.admission import AdmissionVerdict
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.decisions import DecisionRecorder
from pykubelet.kubelet.types.resources.resize import RetryTrigger
from pykubelet.kubelet.types.runtime import RuntimePod
from pykubelet.models.core_v1 import Pod


class Workers(Protocol):
    """The pod workers."""

    def update(self, pod: Pod) -> None:
        """Run the pod, or apply its new version."""

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        """Fail a pod that was not admitted."""

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Stop a pod for a reason of the node (preemption, eviction) and fail it with this reason."""

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        """Stop and remove a pod that its source no longer lists."""

    def poke(self, uid: PodUID, *, probed: bool = False) -> None:
        """Wake the pod's worker; ``probed``: since a probe has a new result."""

    def poke_all(self) -> None:
        """Wake every worker."""


class Pods(Protocol):
    """The pod manager: the desired pods (desired/pods)."""

    def set(self, pod: Pod) -> None:
        """Add a pod, or replace the one with the same uid."""

    def admitted(self, pod: Pod) -> None:
        """Note that the pod was admitted: objects that it uses may be read before its worker needs them."""

    def remove(self, uid: PodUID) -> None:
        """Forget a pod."""

    def uids(self) -> Iterable[PodUID]:
        """Return all desired pods."""


class ResizedPod(Protocol):
    """A pod whose allocation or resize condition has changed."""

    @property
    def pod(self) -> Pod:
        """The pod with its allocated resources."""

    @property
    def preempts(self) -> tuple[PodUID, ...]:
        """Pods to be preempted for it."""


class Admission(Protocol):
    """Whether pods may run here (desired/admission)."""

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return pods that arrived in one update, in the order in which they are to be admitted."""

    def admit(self, pod: Pod, *, final: bool = True) -> AdmissionVerdict:
        """Decide whether the pod may run, and which pods are preempted for it.

        Unless ``final``, a verdict for the node's labels is not kept: they may be outdated.
        """

    def reconsider(self) -> Iterable[Pod]:
        """Yield rejected pods that fit now that a pod has been removed; start each before the next is asked for."""

    def updated(self, pod: Pod) -> Pod:
        """Return an admitted pod that is new or has changed with its allocated resources."""

    def grant(self, trigger: RetryTrigger = RetryTrigger.PERIODIC) -> Sequence[ResizedPod]:
        """Return the pods whose pending resize was allocated now, or whose resize condition has changed."""

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that its source no longer lists."""


class NodeRereader(Protocol):
    """Reads the Node object from the API server again."""

    def request(self) -> int | None:
        """Request a read; return the number that `NodeRead` will have reached afterwards. None: no API server."""


class OrphanWorkers(Protocol):
    """The pod workers, as far as housekeeping uses them."""

    def adopt_orphan(self, ref: PodRef) -> None:
        """Stop and remove a pod that the runtime has and no source lists."""

    @property
    def known(self) -> Iterable[PodUID]:
        """The pods that have a worker."""


class OrphanMetrics(Protocol):
    """Metrics of housekeeping."""

    def orphans_swept(self, pods: int, failed: int) -> None:
        """Record, after each round, the number of pods that had leftovers and the number that still have them."""


class NodePods(Protocol):
    """The pods that exist on the node, desired or not."""

    async def runtime_pods(self) -> list[RuntimePod]:
        """Return the pods that the runtime has."""

    async def pods_on_disk(self) -> set[PodUID]:
        """Return the pods that have a directory, mounts or a cgroup."""

    async def purge(self, uid: PodUID) -> None:
        """Unmount and remove the leftovers of a pod that is not in the runtime."""


class Garbage(Protocol):
    """The garbage collection of dead containers (actuate/podruntime)."""

    async def gc(self, keep: Callable[[], AbstractSet[PodUID]] | None) -> None:
        """Remove dead containers and sandboxes beyond the policy, and logs of pods outside ``keep``; None: all pods."""


class LoopDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the sync loop."""

    pods: Pods
    workers: Workers
    admission: Admission
    node: NodeRereader
    journal: DecisionRecorder
    telemetry: Telemetry[object]


class HousekeepingDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of housekeeping."""

    workers: OrphanWorkers
    wanted: Callable[[], frozenset[PodUID]]
    """Returns the pods of all sources."""
    node_pods: NodePods
    garbage: Garbage
    telemetry: Telemetry[OrphanMetrics]
