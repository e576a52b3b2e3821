"""Pods that were admitted, but cannot be prepared on this node."""

import pytest

from pykubelet.kubelet.control.workers.plan.rejection import rejection_of
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from tests.unit.kubelet.control.fakes import Node, make_pod

REASON = "VolumeAttachmentLimitExceeded"
POD = make_pod("u1")
BEYOND = Failure(SyncAction.PREPARE, "web", REASON, "Node has reached its volume attachment limit, rejecting pod.")
WAITING = Failure(SyncAction.PREPARE, "web", "FailedMount", "the driver is not registered")


@pytest.mark.parametrize(
    ("failures", "expected"), [((), None), ((WAITING,), None), ((WAITING, BEYOND), BEYOND), ((BEYOND,), BEYOND)]
)
def test_only_some_failures_reject_a_pod(failures: tuple[Failure, ...], expected: Failure | None) -> None:
    assert rejection_of(failures) is expected


async def test_pod_whose_volumes_cannot_be_attached_here_is_rejected() -> None:
    node = Node(prepare_failures=[(BEYOND,)])
    result = await node.steps().take(Phase.SYNC, WorkerState(ref_of(POD), POD))
    assert (result.finished, result.failures, result.terminal_reason) == (True, (), REASON)
    assert result.terminal_message == f"Pod was rejected: {BEYOND.message}"
    assert node.events == [f"Warning {REASON} {BEYOND.message}"]
    assert node.metered == [f"rejected {REASON}"]
    assert "sync u1" not in node.calls


async def test_pod_whose_volumes_are_not_set_up_yet_waits() -> None:
    node = Node(prepare_failures=[(WAITING,)])
    result = await node.steps().take(Phase.SYNC, WorkerState(ref_of(POD), POD))
    assert (result.finished, result.failures, result.terminal_reason) == (False, (WAITING,), "")
    assert node.metered == []
