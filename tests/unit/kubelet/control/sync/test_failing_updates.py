"""Workers that raise: the sync loop goes on with the other pods."""

import pytest

from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.events import PeriodicRetry
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
