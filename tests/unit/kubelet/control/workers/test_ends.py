"""Ended pods: their reasons, failures and rejections, and the release of what belongs to them."""

import asyncio
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import Permanent, Transient
from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.outcome import Outcome
from tests.unit.kubelet.control.fakes import U1, U2, Node, NoProbes, make_pod, running
from tests.unit.kubelet.control.workers.states import HARD, pod, state

REF = PodRef("default", "web", U1)


def test_pod_admitted_after_a_refusal_is_restarted_without_it() -> None:
    stopping = state(Phase.TERMINATING, wanted=False)
    refused = lifecycle.refused(stopping, pod(), "OutOfcpu", "no room")
    assert refused.restart_refusal == ("OutOfcpu", "no room")
    again = lifecycle.wanted(refused, pod())
    assert (again.restart, again.restart_refusal) == (pod(), None)
    assert lifecycle.is_active(again)
    given_up = lifecycle.removed(refused)
    assert (given_up.restart, given_up.restart_refusal) == (None, None)


@pytest.mark.parametrize("phase", [Phase.TERMINATED, Phase.REMOVED])
def test_pod_whose_containers_have_ended_cannot_be_failed(phase: Phase) -> None:
    ended = state(phase)
    assert lifecycle.failed(ended, "Evicted", "too late", 1) is ended


def test_sync_that_ends_without_a_reason_keeps_the_previous_one() -> None:
    failed = state(terminal_reason="Evicted", terminal_message="low on memory")
    after = lifecycle.stepped(failed, Phase.SYNC, StepResult(finished=True))
    assert (after.terminal_reason, after.terminal_message) == ("Evicted", "low on memory")


def test_sync_that_ends_the_pod_leaves_no_failures() -> None:
    broken = lifecycle.stepped(state(), Phase.SYNC, StepResult(failures=(HARD,)))
    assert (broken.failures, broken.errors) == ((HARD,), 1)
    after = lifecycle.stepped(broken, Phase.SYNC, StepResult(finished=True, failures=(HARD,)))
    assert (after.phase, after.failures, after.errors) == (Phase.TERMINATING, (), 0)


async def test_orphan_being_stopped_holds_its_name() -> None:
    node = Node(running={U1: "web"}, hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        workers.adopt_orphan(REF)
        await node.clock.settle()
        workers.update(make_pod("u2"))
        await node.clock.settle()
        assert "sync u2" not in node.calls
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.running == {U2: "web"}
        assert node.calls.index("forget u1") < node.calls.index("sync u2")


async def test_pod_that_is_gone_has_no_timer() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert set(workers._timers._due) == {U1}
        workers.remove(U1)
        await node.clock.settle()
        assert list(workers.known) == []
        assert workers._timers._due == {}


@dataclass
class _UnkillableNode(Node):
    """A node whose runtime reports a killed pod although its containers still run."""

    async def kill_pod(self, ref: object, *_: object) -> Outcome:
        self.calls.append("kill")
        return Outcome(changed=True)


@dataclass
class _Probes(NoProbes):
    removed: list[PodUID] = field(default_factory=list)

    def remove_pod(self, uid: PodUID) -> None:
        self.removed.append(uid)


async def test_pod_whose_containers_run_on_after_the_kill_is_not_stopped() -> None:
    node, probes = _UnkillableNode(running={U1: "web"}), _Probes()
    terminating = WorkerState(REF, make_pod("u1"), phase=Phase.TERMINATING)
    steps = node.steps(probes)
    result = await steps.take(Phase.TERMINATING, terminating)
    assert not result.finished
    assert [(f.reason, f.message) for f in result.failures] == [
        ("FailedKillPod", "containers still run after they were stopped: c")
    ]
    assert probes.removed == []
    node.running.clear()
    assert (await steps.take(Phase.TERMINATING, terminating)).finished
    assert probes.removed == [U1]


async def test_failure_with_retry_time_is_retried_then_without_an_event() -> None:
    node = Node(errors={"status": [Transient("busy", retry_after=7), Transient("busy"), Permanent("broken")]})
    syncing = WorkerState(REF, make_pod("u1"))
    now = node.clock.monotonic()
    found = [await node.steps().take(Phase.SYNC, syncing) for _ in range(3)]
    assert [result.wake_at for result in found] == [now + 7, None, None]
    assert [result.failures[0].transient for result in found] == [True, True, False]
    assert [event.rpartition(" ")[2] for event in node.events] == ["busy", "broken"]
