"""Pods that resized for another size: granted, deferred, impossible, and in which order."""

import pytest
from msgspec.structs import replace

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.desired.admission import resizes
from pykubelet.kubelet.desired.admission.plan.resize_order import (
    needs_during_resize,
    never_fits,
    rank,
    swap_prevents_resize,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.kubelet.types.resources.resize import ResizeReason, RetryTrigger, allocation_of, same_resources
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus
from tests.unit.kubelet.desired.admission.build import NODE, make_pod, static
from tests.unit.kubelet.desired.admission.fakes import AdmissionFakes


def wants(uid: str, cpu: str, generation: int = 1, *, priority: int = 0) -> Pod:
    return make_pod(uid, {"cpu": cpu}, {"generation": generation}, priority=priority)


def cpu_of(pod: Pod) -> object:
    resources = pod.spec.containers[0].resources
    assert resources is not None
    return resources.requests["cpu"]


def running(fakes: AdmissionFakes, *pods: Pod) -> None:
    """Workers have these pods as they are allocated now."""
    fakes.running[:] = pods


def test_resize_that_fits_is_allocated_at_once() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    first = wants("a", "300m")
    assert admission.admit(first).admitted and admission.updated(first) is first
    running(fakes, first)
    resized = wants("a", "700m", 2)
    assert cpu_of(admission.updated(resized)) == "300m"
    (granted,) = admission.grant()
    assert granted.pod is resized and admission.allocated(resized) is resized
    assert fakes.pending.get(PodUID("a")) is None
    assert fakes.reported == [
        "a Normal ResizeStarted: Pod resize started: "
        '{"containers":[{"name":"c","resources":{"requests":{"cpu":"700m"}}}],"generation":2}'
    ]
    assert admission.grant() == []


def test_resize_that_does_not_fit_is_deferred() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    a, b = wants("a", "300m"), wants("b", "500m")
    for pod in (a, b):
        admission.admit(pod)
    running(fakes, a, b)
    admission.updated(wants("a", "800m", 2))
    (waits,) = admission.grant()
    assert cpu_of(waits.pod) == "300m"
    pending = fakes.pending.get(PodUID("a"))
    assert pending is not None and (pending.reason, pending.generation) == (ResizeReason.DEFERRED, 2)
    assert pending.message == "Node didn't have enough resource: cpu, requested: 800, used: 500, capacity: 1000"
    assert [line.split(":")[0] for line in fakes.reported] == ["a Warning ResizeDeferred"]
    assert admission.grant() == [] and len(fakes.reported) == 1
    running(fakes, a)
    (granted,) = admission.grant(RetryTrigger.PODS_REMOVED)
    assert cpu_of(granted.pod) == "800m"
    assert "accepted pods_removed" in fakes.reported
    assert fakes.pending.get(PodUID("a")) is None


def test_resize_above_the_nodes_capacity_is_infeasible() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    a = wants("a", "300m")
    admission.admit(a)
    running(fakes, a)
    admission.updated(wants("a", "5", 2))
    admission.grant()
    pending = fakes.pending.get(PodUID("a"))
    assert pending is not None and pending.reason is ResizeReason.INFEASIBLE
    assert pending.message == "Node didn't have enough capacity: cpu, requested: 5000, capacity: 1000"
    fakes.cpus = "8"
    assert admission.grant() == []
    admission.updated(wants("a", "6", 3))
    assert [cpu_of(granted.pod) for granted in admission.grant()] == ["6"]


def test_withdrawn_resize_is_forgotten() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    a = wants("a", "300m")
    admission.admit(a)
    admission.updated(wants("a", "5", 2))
    admission.grant()
    back = wants("a", "0.3", 3)
    assert admission.updated(back) is back
    assert fakes.pending.get(PodUID("a")) is None
    admission.updated(wants("a", "900m", 4))
    admission.forget(PodUID("a"))
    assert admission.grant() == []


@pytest.mark.parametrize("function", ["rank", "resize_summary"])
def test_resize_that_raises_keeps_no_other_and_is_retried(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    for uid in ("a", "b", "c"):
        admission.admit(wants(uid, "100m"))
    running(fakes, *(wants(uid, "100m") for uid in ("a", "b", "c")))
    for uid in ("a", "b", "c"):
        admission.updated(wants(uid, "200m", 2))
    usual = getattr(resizes, function)

    def raises(pod: Pod, *more: object) -> object:
        if pod.metadata.uid == "b":
            raise ValueError("no error that anyone foresaw")
        return usual(pod, *more)

    monkeypatch.setattr(resizes, function, raises)
    assert [granted.pod.metadata.uid for granted in admission.grant()] == ["a", "c"]
    assert admission.grant() == []
    monkeypatch.undo()
    (retried,) = admission.grant()
    assert (retried.pod.metadata.uid, cpu_of(retried.pod)) == ("b", "200m")


def test_ending_pod_is_not_resized() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    admission.admit(wants("a", "300m"))
    ending = make_pod("a", {"cpu": "700m"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert cpu_of(admission.updated(ending)) == "300m"
    assert admission.grant() == []


def test_allocations_and_pending_resizes_survive_a_restart() -> None:
    fakes = AdmissionFakes()
    fakes.allocations.set(wants("a", "300m"))
    condition = {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "Node didn't have enough resource: cpu, requested: 900, used: 500, capacity: 1000",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    from_api = replace(wants("a", "900m", 2), status=PodStatus(conditions=(from_builtins(condition, PodCondition),)))
    admission = fakes.admission()
    admission.admitted_before([PodUID("a")])
    b = wants("b", "500m")
    running(fakes, b)
    assert admission.admit(from_api).admitted
    assert cpu_of(admission.updated(from_api)) == "300m"
    assert admission.grant() == [] and fakes.reported == []
    pending = fakes.pending.get(PodUID("a"))
    assert pending is not None and pending.since == 1_767_225_600


def test_shrinking_pod_keeps_its_resources_until_they_are_released() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    a, b = wants("a", "800m"), wants("b", "200m")
    admission.admit(a)
    running(fakes, a)
    smaller = wants("a", "100m", 2)
    admission.updated(smaller)
    assert len(admission.grant()) == 1
    running(fakes, smaller)
    fakes.allocations.late[PodUID("a")] = {"c": Size(cpu_request=MilliCPU(800))}
    assert not admission.admit(wants("big", "500m")).admitted
    assert admission.admit(b).admitted
    del fakes.allocations.late[PodUID("a")]
    admission.forget(PodUID("big"))
    assert admission.admit(wants("big", "500m")).admitted


def test_resize_of_a_critical_pod_preempts_others() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    a = wants("a", "300m", priority=2_000_000_000)
    b = wants("b", "500m")
    for pod in (a, b):
        admission.admit(pod)
    running(fakes, a, b)
    admission.updated(wants("a", "900m", 2, priority=2_000_000_000))
    (granted,) = admission.grant()
    assert granted.preempts == (PodUID("b"),)
    victim = ["b Warning Preempting: Preempted in order to admit critical pod", "preempted for cpu"]
    assert [each for each in fakes.reported if "reempt" in each] == victim


def test_static_pod_has_no_allocation_to_keep() -> None:
    fakes = AdmissionFakes(cpus="1")
    admission = fakes.admission()
    pod = static("s", {"cpu": "500m"})
    admission.admit(pod)
    assert admission.updated(pod) is pod


def test_resizes_are_tried_in_the_order_of_upstream() -> None:
    old = wants("a", "1")
    both = {"cpu": "2", "memory": "1Gi"}
    guaranteed = make_pod("a", container={"resources": {"limits": both, "requests": both}})
    keys = {
        "shrinks": rank(wants("a", "500m"), old, 9.0),
        "critical": rank(wants("a", "2", priority=7), old, 9.0),
        "guaranteed": rank(guaranteed, old, 9.0),
        "oldest": rank(wants("a", "2"), old, 1.0),
        "youngest": rank(wants("a", "2"), old, 5.0),
    }
    assert sorted(keys, key=lambda name: keys[name]) == list(keys)


def test_needs_during_a_resize_are_the_larger_of_both() -> None:
    pod = make_pod("a", {"cpu": "1", "memory": "100Mi"})
    needs = needs_during_resize(pod, {"c": Size(MilliCPU(500), memory_request=Bytes(300 << 20))})
    assert (needs.requests.cpu, needs.requests.memory) == (1000, 300 << 20)


@pytest.mark.parametrize(
    ("new", "policy", "swapping", "refused"),
    [
        ("2Gi", [], {"c"}, True),
        ("1Gi", [], {"c"}, False),
        ("2Gi", [], set(), False),
        ("2Gi", [{"resourceName": "memory", "restartPolicy": "RestartContainer"}], {"c"}, False),
        ("2Gi", [{"resourceName": "memory", "restartPolicy": "NotRequired"}], {"c"}, True),
    ],
)
def test_container_with_swap_is_not_resized_in_memory(
    new: str, policy: list[object], swapping: set[str], refused: bool
) -> None:
    requested = make_pod("a", container={"resizePolicy": policy, "resources": {"requests": {"memory": new}}})
    text = swap_prevents_resize(requested, make_pod("a", {"memory": "1Gi"}), swapping)
    assert text == ("In-place resize of containers with swap is not supported." if refused else "")


def test_a_node_that_is_large_enough_is_no_obstacle() -> None:
    needs = needs_during_resize(make_pod("a", {"cpu": "2", "memory": "1Gi"}), {})
    assert never_fits(needs, NODE) == ""
    small = replace(NODE, allocatable=amounts({"cpu": "2", "memory": "1Mi"}))
    assert never_fits(needs, small).startswith("Node didn't have enough capacity: memory, requested: 1073741824,")


def test_equal_resources_however_written() -> None:
    a, b = allocation_of(wants("a", "1")), allocation_of(wants("a", "1000m"))
    assert same_resources(a.containers["c"], b.containers["c"])
    assert not same_resources(a.containers["c"], None)
    assert same_resources(None, None)


async def test_resizes_are_allocated_in_order_when_the_wall_clock_is_set_back() -> None:
    fakes = AdmissionFakes()
    admission = fakes.admission()
    pods = [wants(uid, "300m") for uid in "abc"]
    for pod in pods:
        admission.admit(pod)
    running(fakes, *pods)
    for uid in "ab":
        admission.updated(wants(uid, "450m", 2))
        admission.grant()
        fakes.clock.jump_wall(-3600.0)
        await fakes.clock.advance(1)
    fakes.running.pop()
    assert [granted.pod.metadata.uid for granted in admission.grant()] == ["a", "b"]
