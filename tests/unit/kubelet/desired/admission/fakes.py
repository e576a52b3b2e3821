"""Fakes of everything that the admission manager calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.kubelet.desired.admission import Admission, AdmissionDeps, NodeProperties
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.kubelet.types.resources.resize import Allocation, PendingResizes, ResizeProgress, allocation_of
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock


@dataclass
class FakeAllocations:
    """Allocations in memory; what is in ``late`` has not been applied yet."""

    given: dict[PodUID, Allocation] = field(default_factory=dict)
    late: dict[PodUID, dict[str, Size]] = field(default_factory=dict)

    def get(self, uid: PodUID) -> Allocation | None:
        return self.given.get(uid)

    def set(self, pod: Pod) -> None:
        self.given[PodUID(pod.metadata.uid)] = allocation_of(pod)

    def progress(self, uid: PodUID) -> ResizeProgress | None:
        return ResizeProgress(1) if uid in self.late else None

    def applied(self, uid: PodUID) -> Mapping[str, Size]:
        return self.late.get(uid, {})


@dataclass
class AdmissionFakes:
    """Node, workers, events and metrics."""

    running: list[Pod] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    cpus: str = "1"
    allocations: FakeAllocations = field(default_factory=FakeAllocations)
    clock: VirtualClock = field(default_factory=VirtualClock)
    pending: PendingResizes = field(default_factory=PendingResizes)

    def admission(self) -> Admission:
        self.pending = PendingResizes()
        return Admission(
            AdmissionDeps(
                node=self.node,
                sysctl_refusal=lambda pod: None,
                active=lambda: self.running,
                allocations=self.allocations,
                pending=self.pending,
                telemetry=Telemetry(clock=self.clock, events=self, timeline=PodTimelines(self.clock), metrics=self),
            )
        )

    def node(self) -> NodeProperties:
        return NodeProperties("n1", allocatable=amounts({"cpu": self.cpus}))

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.reported.append(f"{pod.name if pod else ''} {event_type} {reason}: {message}")

    def admission_rejected(self, reason: str) -> None:
        self.reported.append(f"rejected {reason}")

    def preempted(self, signal: str) -> None:
        self.reported.append(f"preempted for {signal}")

    def resize_accepted(self, trigger: str) -> None:
        self.reported.append(f"accepted {trigger}")
