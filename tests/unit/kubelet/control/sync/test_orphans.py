"""Orphans among the pods on the node."""

from pykubelet.kubelet.control.sync.plan.orphans import Orphans, find_orphans
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.runtime import RuntimePod

A, B, C, D = PodUID("a"), PodUID("b"), PodUID("c"), PodUID("d")


def in_runtime(uid: PodUID) -> RuntimePod:
    return RuntimePod(PodRef("default", uid, uid))


def test_pods_without_a_worker_are_orphans() -> None:
    found = find_orphans({A}, [in_runtime(A), in_runtime(B)], {A, B, C})
    assert [ref.uid for ref in found.pods] == [B]
    assert found.leftovers == (C,)


def test_leftovers_are_sorted_and_pods_with_a_worker_are_no_orphans() -> None:
    assert find_orphans((), (), [D, C]) == Orphans((), (C, D))
    assert find_orphans([A, B], [in_runtime(A)], [B]) == Orphans((), ())
