"""Pods that wish for another size: granted, deferred, impossible, and in which order."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.desired.admission.decide_resize import held, never_fits, rank, swap_is_in_the_way
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podresources import amounts
from pykubelet.kubelet.types.resize import ResizeReason, Retry, allocation_of, same_resources
from pykubelet.kubelet.types.size import Size
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus
from tests.unit.kubelet.desired.admission.test_decide import NODE, make_pod, static
from tests.unit.kubelet.desired.admission.test_manager import Surroundings


def wants(uid: str, cpu: str, generation: int = 1, *, priority: int = 0) -> Pod:
    return make_pod(uid, {"cpu": cpu}, {"generation": generation}, priority=priority)


def cpu_of(pod: Pod) -> object:
    resources = pod.spec.containers[0].resources
    assert resources is not None
    return resources.requests["cpu"]


def running(around: Surroundings, *pods: Pod) -> None:
    """Workers have these pods as they are allotted now."""
    around.running[:] = pods


def test_a_wish_that_fits_is_granted_at_once() -> None:
    around = Surroundings()
    admission = around.admission()
    first = wants("a", "300m")
    assert admission.admit(first).admitted and admission.updated(first) is first
    running(around, first)
    wish = wants("a", "700m", 2)
    assert cpu_of(admission.updated(wish)) == "300m"
    (granted,) = admission.grant()
    assert granted.pod is wish and admission.allotted(wish) is wish
    assert admission.pending_resize(PodUID("a")) is None
    assert around.told == [
        "a Normal ResizeStarted: Pod resize started: "
        '{"containers":[{"name":"c","resources":{"requests":{"cpu":"700m"}}}],"generation":2}'
    ]
    assert admission.grant() == []


def test_a_wish_that_does_not_fit_waits_for_room() -> None:
    around = Surroundings()
    admission = around.admission()
    a, b = wants("a", "300m"), wants("b", "500m")
    for pod in (a, b):
        admission.admit(pod)
    running(around, a, b)
    admission.updated(wants("a", "800m", 2))
    (waits,) = admission.grant()
    assert cpu_of(waits.pod) == "300m"
    pending = admission.pending_resize(PodUID("a"))
    assert pending is not None and (pending.reason, pending.generation) == (ResizeReason.DEFERRED, 2)
    assert pending.message == "Node didn't have enough resource: cpu, requested: 800, used: 500, capacity: 1000"
    assert [line.split(":")[0] for line in around.told] == ["a Warning ResizeDeferred"]
    assert admission.grant() == [] and len(around.told) == 1
    running(around, a)
    (granted,) = admission.grant(Retry.PODS_REMOVED)
    assert cpu_of(granted.pod) == "800m"
    assert "accepted pods_removed" in around.told
    assert admission.pending_resize(PodUID("a")) is None


def test_what_the_node_never_has_is_infeasible_and_not_tried_again() -> None:
    around = Surroundings()
    admission = around.admission()
    a = wants("a", "300m")
    admission.admit(a)
    running(around, a)
    admission.updated(wants("a", "5", 2))
    admission.grant()
    pending = admission.pending_resize(PodUID("a"))
    assert pending is not None and pending.reason is ResizeReason.INFEASIBLE
    assert pending.message == "Node didn't have enough capacity: cpu, requested: 5000, capacity: 1000"
    around.cpus = "8"
    assert admission.grant() == []
    admission.updated(wants("a", "6", 3))
    assert [cpu_of(granted.pod) for granted in admission.grant()] == ["6"]


def test_a_wish_taken_back_is_forgotten() -> None:
    around = Surroundings()
    admission = around.admission()
    a = wants("a", "300m")
    admission.admit(a)
    admission.updated(wants("a", "5", 2))
    admission.grant()
    back = wants("a", "0.3", 3)
    assert admission.updated(back) is back
    assert admission.pending_resize(PodUID("a")) is None
    admission.updated(wants("a", "900m", 4))
    admission.forget(PodUID("a"))
    assert admission.grant() == []


def test_pods_that_end_get_nothing_more() -> None:
    around = Surroundings()
    admission = around.admission()
    admission.admit(wants("a", "300m"))
    ending = make_pod("a", {"cpu": "700m"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert cpu_of(admission.updated(ending)) == "300m"
    assert admission.grant() == []


def test_after_a_restart_pods_have_what_they_were_allotted_and_wait_as_long_as_before() -> None:
    around = Surroundings()
    around.allotted.set(wants("a", "300m"))
    condition = {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "Node didn't have enough resource: cpu, requested: 900, used: 500, capacity: 1000",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    from_api = replace_struct(
        wants("a", "900m", 2), status=PodStatus(conditions=(from_builtins(condition, PodCondition),))
    )
    admission = around.admission()
    admission.admitted_before([PodUID("a")])
    b = wants("b", "500m")
    running(around, b)
    assert admission.admit(from_api).admitted
    assert cpu_of(admission.updated(from_api)) == "300m"
    assert admission.grant() == [] and around.told == []
    pending = admission.pending_resize(PodUID("a"))
    assert pending is not None and pending.since == 1_767_225_600


def test_a_pod_that_shrinks_keeps_its_room_until_it_has_given_it_back() -> None:
    around = Surroundings()
    admission = around.admission()
    a, b = wants("a", "800m"), wants("b", "200m")
    admission.admit(a)
    running(around, a)
    smaller = wants("a", "100m", 2)
    admission.updated(smaller)
    assert len(admission.grant()) == 1
    running(around, smaller)
    around.allotted.late[PodUID("a")] = {"c": Size(cpu_request=MilliCPU(800))}
    assert not admission.admit(wants("big", "500m")).admitted
    assert admission.admit(b).admitted
    del around.allotted.late[PodUID("a")]
    admission.forget(PodUID("big"))
    assert admission.admit(wants("big", "500m")).admitted


def test_a_critical_pod_pushes_others_out_for_its_size() -> None:
    around = Surroundings()
    admission = around.admission()
    a = wants("a", "300m", priority=2_000_000_000)
    b = wants("b", "500m")
    for pod in (a, b):
        admission.admit(pod)
    running(around, a, b)
    admission.updated(wants("a", "900m", 2, priority=2_000_000_000))
    (granted,) = admission.grant()
    assert granted.preempts == (PodUID("b"),)


def test_a_pod_of_a_manifest_has_no_allotment_to_keep() -> None:
    around = Surroundings(cpus="1")
    admission = around.admission()
    pod = static("s", {"cpu": "500m"})
    admission.admit(pod)
    assert admission.updated(pod) is pod


def test_the_order_of_wishes() -> None:
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


def test_what_is_held_is_the_larger_of_both() -> None:
    pod = make_pod("a", {"cpu": "1", "memory": "100Mi"})
    needs = held(pod, {"c": Size(MilliCPU(500), memory_request=Bytes(300 << 20))})
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
def test_what_swaps_keeps_its_memory(new: str, policy: list[object], swapping: set[str], refused: bool) -> None:
    wished = make_pod("a", container={"resizePolicy": policy, "resources": {"requests": {"memory": new}}})
    text = swap_is_in_the_way(wished, make_pod("a", {"memory": "1Gi"}), swapping)
    assert text == ("In-place resize of containers with swap is not supported." if refused else "")


def test_a_node_that_is_large_enough_is_no_obstacle() -> None:
    needs = held(make_pod("a", {"cpu": "2", "memory": "1Gi"}), {})
    assert never_fits(needs, NODE) == ""
    small = replace(NODE, allocatable=amounts({"cpu": "2", "memory": "1Mi"}))
    assert never_fits(needs, small).startswith("Node didn't have enough capacity: memory, requested: 1073741824,")


def test_equal_resources_however_written() -> None:
    a, b = allocation_of(wants("a", "1")), allocation_of(wants("a", "1000m"))
    assert same_resources(a.containers["c"], b.containers["c"])
    assert not same_resources(a.containers["c"], None)
    assert same_resources(None, None)


async def test_wishes_while_the_wall_clock_is_set_back_are_granted_in_their_order() -> None:
    around = Surroundings()
    admission = around.admission()
    pods = [wants(uid, "300m") for uid in "abc"]
    for pod in pods:
        admission.admit(pod)
    running(around, *pods)
    for uid in "ab":
        admission.updated(wants(uid, "450m", 2))
        admission.grant()
        around.clock.jump_wall(-3600.0)
        await around.clock.advance(1)
    around.running.pop()
    assert [granted.pod.metadata.uid for granted in admission.grant()] == ["a", "b"]
