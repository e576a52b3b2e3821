"""Workers that raise: the sync loop goes on with the other pods."""

import pytest

from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.events import NodeRead, PeriodicRetry
from pykubelet.kubelet.types.admission import NODE_AFFINITY, AdmissionVerdict
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import PodOp, PodUpdate, Source
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.control.fakes import make_pod
from tests.unit.kubelet.control.sync.fakes import GrantedResize, LoopFakes


def fail_for_a(fakes: LoopFakes, patch: pytest.MonkeyPatch) -> None:
    """Updates of the worker of the pod ``a`` raise."""
    usual = fakes.update

    def update(pod: Pod) -> None:
        if pod.metadata.uid == "a":
            raise ValueError("no error that anyone foresaw")
        usual(pod)

    patch.setattr(fakes, "update", update)


async def test_rejected_pod_that_raises_keeps_no_other_and_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = LoopFakes(waiting=[make_pod("a"), make_pod("b")])
    loop = SyncLoop(fakes.deps(), fakes.queue)
    with monkeypatch.context() as patch:
        fail_for_a(fakes, patch)
        loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("c"),)))
    assert fakes.calls[-1] == "update b"
    assert fakes.triggers == ["pods_removed"], "resizes are granted as well"
    fakes.waiting.clear()
    await fakes.clock.advance(10)
    loop.handle(PeriodicRetry())
    assert fakes.calls[-1] == "update a"


async def test_resized_pod_that_raises_keeps_no_other_from_its_new_size(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = LoopFakes(granted=[GrantedResize(make_pod("a")), GrantedResize(make_pod("b"))])
    loop = SyncLoop(fakes.deps(), fakes.queue)
    fail_for_a(fakes, monkeypatch)
    loop.handle(PeriodicRetry())
    assert fakes.calls == ["update b"]


async def test_pod_that_raises_after_the_node_was_read_again_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = PodUID("a")
    fakes = LoopFakes(verdicts={uid: AdmissionVerdict(NODE_AFFINITY, "no such label")}, node_reads=0)
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.API, (make_pod("a"),)))
    del fakes.verdicts[uid]
    with monkeypatch.context() as patch:
        fail_for_a(fakes, patch)
        loop.handle(NodeRead(1))
    await fakes.clock.advance(10)
    loop.handle(PeriodicRetry())
    assert fakes.calls[-1] == "update a"


@pytest.mark.parametrize("op", [PodOp.UPDATE, PodOp.RECONCILE])
async def test_new_pod_that_raises_is_still_admitted_after_a_change(monkeypatch: pytest.MonkeyPatch, op: PodOp) -> None:
    fakes = LoopFakes()
    loop = SyncLoop(fakes.deps(), fakes.queue)

    def admit(pod: Pod, *, final: bool = True) -> AdmissionVerdict:
        raise ValueError("no error that anyone foresaw")

    with monkeypatch.context() as patch:
        patch.setattr(fakes, "admit", admit)
        loop.handle(PodUpdate(PodOp.ADD, Source.API, (make_pod("a"),)))
        loop.handle(PodUpdate(op, Source.API, (make_pod("a"),)))
    assert "update a" not in fakes.calls, "it was not admitted"
    await fakes.clock.advance(10)
    loop.handle(PeriodicRetry())
    assert fakes.calls[-2:] == ["admitted a", "update a"]
