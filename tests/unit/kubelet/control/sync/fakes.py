"""Fakes of everything that the sync loop calls; they record the calls."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pykubelet.base.errors import Transient
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.control.sync.sync_interfaces import HousekeepingDeps, LoopDeps
from pykubelet.kubelet.types.admission import ADMITTED, AdmissionVerdict
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.resources.resize import RetryTrigger
from pykubelet.kubelet.types.runtime import RuntimePod
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from tests.unit.kubelet.control.fakes import Decisions


@dataclass(frozen=True)
class GrantedResize:
    """A pod whose resize was allocated."""

    pod: Pod
    preempts: tuple[PodUID, ...] = ()


@dataclass
class LoopFakes:
    """Fakes of everything that the loop calls."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    calls: list[str] = field(default_factory=list)
    workers: set[PodUID] = field(default_factory=set)
    runtime: list[RuntimePod] = field(default_factory=list)
    disk: set[PodUID] = field(default_factory=set)
    sourced: set[PodUID] = field(default_factory=set)
    failing: set[PodUID] = field(default_factory=set)
    runtime_down: bool = False
    verdicts: dict[PodUID, AdmissionVerdict] = field(default_factory=dict)
    waiting: list[Pod] = field(default_factory=list)
    granted: list[GrantedResize] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)
    queue: EventQueue = field(init=False)
    journal: Decisions = field(default_factory=Decisions)
    node_reads: int | None = None
    """Number of requests to read the Node object; None: there is no API server."""
    swept: list[tuple[int, int]] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    """Events."""

    def __post_init__(self) -> None:
        self.queue = EventQueue(self.clock.monotonic)

    def deps(self) -> LoopDeps:
        return LoopDeps(
            pods=DesiredPods(self.calls),
            workers=self,
            admission=self,
            node=self,
            journal=self.journal,
            telemetry=telemetry(self.clock, self, timeline=self, events=self),
        )

    def housekeeping_deps(self) -> HousekeepingDeps:
        return HousekeepingDeps(
            workers=self,
            wanted=lambda: frozenset(self.sourced),
            node_pods=self,
            garbage=self,
            telemetry=telemetry(self.clock, self, timeline=self, events=self),
        )

    def update(self, pod: Pod) -> None:
        self.calls.append(f"update {pod.metadata.uid}")

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        self.calls.append(f"reject {pod.metadata.uid} {reason}: {message}")

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        self.calls.append(f"fail {uid} {reason}: {message}")

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        self.calls.append(f"remove {uid}")

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        return sorted(pods, key=lambda pod: pod.metadata.name)

    def request(self) -> int | None:
        if self.node_reads is not None:
            self.node_reads += 1
        return self.node_reads

    def admit(self, pod: Pod, *, final: bool = True) -> AdmissionVerdict:
        return self.verdicts.get(PodUID(pod.metadata.uid), ADMITTED)

    def reconsider(self) -> Iterable[Pod]:
        return self.waiting

    def updated(self, pod: Pod) -> Pod:
        return pod

    def grant(self, trigger: RetryTrigger = RetryTrigger.PERIODIC) -> Sequence[GrantedResize]:
        self.triggers.append(trigger)
        granted, self.granted = self.granted, []
        return granted

    def forget(self, uid: PodUID) -> None:
        self.verdicts.pop(uid, None)

    def adopt_orphan(self, ref: PodRef) -> None:
        self.calls.append(f"orphan {ref.uid}")
        self.workers.add(ref.uid)

    def poke(self, uid: PodUID, *, probed: bool = False) -> None:
        self.calls.append(f"poke {uid}{' probed' if probed else ''}")

    def poke_all(self) -> None:
        self.calls.append("poke all")

    @property
    def known(self) -> Iterable[PodUID]:
        return self.workers

    def pod_seen(self, pod: Pod) -> None:
        self.calls.append(f"seen {pod.metadata.uid}")

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None: ...

    def event(self, pod: PodRef | None, event_type: str, reason: str, message: str, **more: object) -> None:
        self.reported.append(f"{event_type} {reason}: {message}")

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None: ...

    def orphans_swept(self, pods: int, failed: int) -> None:
        self.swept.append((pods, failed))

    async def runtime_pods(self) -> list[RuntimePod]:
        if self.runtime_down:
            raise Transient("runtime down")
        return self.runtime

    async def pods_on_disk(self) -> set[PodUID]:
        return self.disk

    async def purge(self, uid: PodUID) -> None:
        if uid in self.failing:
            raise Transient("busy")
        self.calls.append(f"purge {uid}")
        self.disk.discard(uid)

    async def gc(self, keep: Callable[[], AbstractSet[PodUID]] | None) -> None:
        self.calls.append(f"gc {sorted(keep()) if keep is not None else 'of all pods'}")


class DesiredPods:
    """A pod manager that records its calls."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def set(self, pod: Pod) -> None:
        self._calls.append(f"set {pod.metadata.uid}")

    def admitted(self, pod: Pod) -> None:
        self._calls.append(f"admitted {pod.metadata.uid}")

    def remove(self, uid: PodUID) -> None:
        self._calls.append(f"forget {uid}")

    def uids(self) -> Iterable[PodUID]:
        return ()
