"""What the sync loop needs of the other stages."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.kubelet.types.admission import Verdict
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.resize import Retry
from pykubelet.kubelet.types.runtime import RuntimePod
from pykubelet.models.core_v1 import Pod


class Workers(Protocol):
    """The pod workers."""

    def update(self, pod: Pod) -> None:
        """The pod is wanted."""

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        """The pod is wanted but may not run."""

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """The node ends the pod for its own reasons."""

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        """The pod is no longer wanted."""

    def adopt_orphan(self, ref: PodRef) -> None:
        """Stop and remove a pod that only the runtime knows."""

    def poke(self, uid: PodUID) -> None:
        """Look at the pod again."""

    def poke_all(self) -> None:
        """Look at every pod again."""

    def known(self) -> Iterable[PodUID]:
        """Pods with a worker."""


class Pods(Protocol):
    """The pod manager: the desired pods (desired/pods)."""

    def set(self, pod: Pod) -> None:
        """Add a pod or replace the one of the same uid."""

    def admitted(self, pod: Pod) -> None:
        """The pod has been let in: what it needs may be got ready before its worker asks for it."""

    def remove(self, uid: PodUID) -> None:
        """Forget a pod."""

    def uids(self) -> Iterable[PodUID]:
        """All desired pods."""


class Resized(Protocol):
    """A pod whose allotment or condition has changed."""

    @property
    def pod(self) -> Pod:
        """As it is to be run."""

    @property
    def preempts(self) -> tuple[PodUID, ...]:
        """Who has to go for it."""


class Admission(Protocol):
    """Whether pods may run here (desired/admission)."""

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods that came together, in the order in which they are to be let in."""

    def admit(self, pod: Pod) -> Verdict:
        """Whether the pod may run, and who has to go for it."""

    def reconsider(self) -> Iterable[Pod]:
        """Pods turned away that may run now that another has gone; to be taken up one by one."""

    def updated(self, pod: Pod) -> Pod:
        """A pod that was let in has come or changed: as it is to be run, with the resources that it was allotted."""

    def grant(self, trigger: Retry = Retry.PERIODIC) -> Sequence[Resized]:
        """The pods that get another size now, or learn why they do not."""

    def forget(self, uid: PodUID) -> None:
        """The pod is no longer wanted."""


class Timeline(Protocol):
    """Where the first sight of a pod is noted."""

    def pod_seen(self, pod: Pod) -> None:
        """A source delivered a pod that is new to the loop."""


class NodeHoldings(Protocol):
    """What is on the node of pods, wanted or not."""

    async def runtime_pods(self) -> list[RuntimePod]:
        """Pods that the runtime has."""

    async def pods_on_disk(self) -> set[PodUID]:
        """Pods with a directory, mounts or a cgroup."""

    async def purge(self, uid: PodUID) -> None:
        """Unmount and remove everything of a pod that is not in the runtime."""


class Garbage(Protocol):
    """Collects what dead containers leave behind (actuate/podruntime)."""

    async def gc(self, keep: Callable[[], AbstractSet[PodUID]]) -> None:
        """Remove dead containers and sandboxes beyond the policy, and logs of pods outside ``keep``."""


@dataclass(frozen=True, slots=True)
class LoopDeps:
    """All that the loop acts through."""

    pods: Pods
    workers: Workers
    timeline: Timeline
    holdings: NodeHoldings
    garbage: Garbage
    admission: Admission
    clock: Clock
