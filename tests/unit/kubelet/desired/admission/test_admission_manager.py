"""Admission as the sync loop uses it: verdicts that stay, pods of an earlier agent, events and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.kubelet.desired.admission import Admission, AdmissionDeps, NodeProperties
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.resources.podresources import amounts
from pykubelet.kubelet.types.resources.resize import Allocation, PendingResizes, ResizeProgress, allocation_of
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.desired.admission.test_rules import make_pod, static

A, B = PodUID("a"), PodUID("b")


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
    told: list[str] = field(default_factory=list)
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
        self.told.append(f"{pod.name if pod else ''} {event_type} {reason}: {message}")

    def admission_rejected(self, reason: str) -> None:
        self.told.append(f"rejected {reason}")

    def preempted(self, signal: str) -> None:
        self.told.append("preempted")

    def resize_accepted(self, trigger: str) -> None:
        self.told.append(f"accepted {trigger}")


def one_cpu(uid: str) -> Pod:
    return make_pod(uid, {"cpu": "1"})


def test_rejection_is_reported_once_and_stays() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    admission = fakes.admission()
    first = admission.admit(one_cpu("b"))
    fakes.running.clear()
    assert admission.admit(one_cpu("b")) is first
    assert first.reason == "OutOfcpu"
    assert fakes.told == [f"b Warning OutOfcpu: {first.message}", "rejected OutOfcpu"]


def test_pod_listed_again_is_decided_again() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    admission = fakes.admission()
    assert not admission.admit(one_cpu("b")).admitted
    admission.forget(B)
    fakes.running.clear()
    assert admission.admit(one_cpu("b")).admitted


def test_pod_admitted_by_an_earlier_run_stays_and_counts() -> None:
    fakes = AdmissionFakes(cpus="1")
    admission = fakes.admission()
    admission.admitted_before([A])
    big, other = make_pod("a", {"cpu": "5"}), one_cpu("b")
    assert admission.in_order([other, big]) == [big, other]
    verdict = admission.admit(big)
    assert (verdict.admitted, verdict.rule) == (True, "it was admitted before the agent was restarted")
    fakes.running.append(big)
    assert admission.admit(other).reason == "OutOfcpu"


def test_earlier_admission_ends_with_the_pod() -> None:
    admission = AdmissionFakes(cpus="0").admission()
    admission.admitted_before([A])
    admission.forget(A)
    assert admission.admit(one_cpu("a")).reason == "OutOfcpu"


def test_oldest_pods_are_admitted_first() -> None:
    admission = AdmissionFakes().admission()
    young = make_pod("young", meta={"creationTimestamp": "2026-01-02T00:00:00Z"})
    old = make_pod("old", meta={"creationTimestamp": "2026-01-01T00:00:00Z"})
    assert admission.in_order([young, old]) == [old, young]


def test_own_requests_of_a_pod_do_not_count_twice() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    assert fakes.admission().admit(one_cpu("a")).admitted


def test_ending_pods_are_not_checked() -> None:
    admission = AdmissionFakes(cpus="0").admission()
    ending = admission.admit(make_pod("a", {"cpu": "1"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert (ending.admitted, ending.rule) == (True, "it is ending")
    mirror = make_pod("b", {"cpu": "1"}, {"annotations": {"kubernetes.io/config.mirror": "x"}})
    verdict = admission.admit(mirror)
    assert (verdict.admitted, verdict.rule) == (True, "it is the mirror of a static pod")


def test_preemption_is_reported_for_each_victim() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    assert fakes.admission().admit(static("s", {"cpu": "1"})).preempts == (A,)
    assert fakes.told == ["a Warning Preempting: Preempted in order to admit critical pod", "preempted"]


def test_malformed_request_is_a_rejection() -> None:
    fakes = AdmissionFakes()
    verdict = fakes.admission().admit(make_pod("a", {"cpu": "many"}))
    assert verdict.reason == "UnexpectedAdmissionError"
    assert "'many' is not a quantity" in verdict.message


def test_rejected_static_pods_are_admitted_when_others_are_removed() -> None:
    fakes = AdmissionFakes(running=[static("a", {"cpu": "1"})])
    admission = fakes.admission()
    for pod in (static("b", {"cpu": "1"}), static("c", {"cpu": "1"}), one_cpu("d")):
        assert not admission.admit(pod).admitted
    assert list(admission.reconsider()) == []
    fakes.running.clear()
    let_in = []
    for pod in admission.reconsider():
        let_in.append(pod.metadata.uid)
        fakes.running.append(pod)
    assert let_in == ["b"]
    assert admission.admit(static("b", {"cpu": "1"})).admitted
    admission.forget(PodUID("c"))
    fakes.running.clear()
    assert list(admission.reconsider()) == []


def test_a_pod_that_does_not_match_is_not_reconsidered() -> None:
    admission = AdmissionFakes().admission()
    assert admission.admit(static("a", nodeSelector={"disk": "ssd"})).reason == "NodeAffinity"
    assert list(admission.reconsider()) == []
