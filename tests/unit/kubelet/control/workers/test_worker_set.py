"""Pod workers over a small node, in virtual time."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.errors import Permanent, Transient
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.pod_worker import PodWorker
from pykubelet.kubelet.control.workers.timers import WakeTimers
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import PodRef, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.outcome import Failure, Outcome, SyncAction
from pykubelet.kubelet.types.runtime import RuntimeConditions, SandboxStatus
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.control.fakes import U1, U2, Node, make_pod, running

WAITING = Failure(SyncAction.START_CONTAINER, "c", "CrashLoopBackOff", "back-off", transient=True)
BROKEN = Failure(SyncAction.START_CONTAINER, "c", "RunContainerError", "no such file")


async def test_removed_pod_leaves_nothing_on_the_node() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.running == {U1: "web"}
        assert node.watched == [U1]
        node.calls.clear()
        workers.remove(U1)
        await node.clock.settle()
        assert node.calls == ["kill u1 grace=None", "release u1", "remove u1", "forget u1", "status-remove u1"]
        assert not list(workers.known)
        assert node.metered == ["started", "create", "sync", "kill", "terminated"]


async def test_steps_are_measured_by_the_operations_of_upstream() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        workers.update(make_pod("u1"))
        await node.clock.settle()
        node.metered.clear()
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.poke(U1)
        await node.clock.settle()
        assert node.metered == ["update", "sync"]


async def test_pod_added_before_the_workers_run_is_started() -> None:
    node = Node()
    workers = PodWorkers(node.deps(), node.table)
    workers.update(make_pod("u1"))
    task = asyncio.create_task(workers.run())
    await node.clock.settle()
    assert node.running == {U1: "web"}
    task.cancel()
    await asyncio.wait([task])


async def test_cancelling_the_workers_leaves_the_pods_running() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
    assert node.running == {U1: "web"}
    assert not [call for call in node.calls if call.startswith("kill")]


async def test_edited_static_pod_starts_after_the_old_one_is_removed() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.update(make_pod("u2"))
        workers.remove(U1)
        await node.clock.settle()
        assert "sync u2" not in node.calls
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.running == {U2: "web"}
        assert node.calls.index("forget u1") < node.calls.index("sync u2")


async def test_api_pod_is_cleaned_up_after_its_replacement_had_time_to_start() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1", source="api"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        assert "release u1" in node.calls
        workers.update(make_pod("u2", source="api"))
        await node.clock.settle()
        assert "remove u1" not in node.calls
        assert node.running == {U2: "web"}
        await node.clock.advance(1)
        assert "forget u1" in node.calls
        assert list(workers.known) == [U2]


async def test_pod_removed_while_it_waits_for_its_name_never_starts() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        for uid in ("u1", "u2", "u3"):
            workers.update(make_pod(uid))
        workers.remove(U2)
        workers.remove(U1)
        node.hold["kill"].set()
        await node.clock.settle()
        assert set(node.running) == {"u3"}
        assert "sync u2" not in node.calls


async def test_same_manifest_removed_and_restored_restarts_the_pod() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        workers.update(make_pod("u1"))
        node.calls.clear()
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.running == {U1: "web"}
        assert node.calls.index("forget u1") < node.calls.index("sync u1")
        assert "remove u1 but not its logs" in node.calls, "its restart counts continue"


async def test_removal_interrupts_a_hanging_sync() -> None:
    node = Node(hold={"sync": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        assert "forget u1" in node.calls


async def test_shorter_grace_period_interrupts_the_running_kill() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1, 30)
        await node.clock.settle()
        workers.remove(U1, 1)
        node.hold["kill"].set()
        await node.clock.settle()
        assert [c for c in node.calls if c.startswith("kill")] == ["kill u1 grace=30", "kill u1 grace=1"]


async def test_stuck_pod_does_not_delay_another() -> None:
    node = Node(hold={"sync": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1", "a"))
        await node.clock.settle()
        del node.hold["sync"]
        workers.update(make_pod("u2", "b"))
        await node.clock.settle()
        assert node.running == {U2: "b"}


async def test_back_off_is_waited_for_exactly() -> None:
    node = Node()
    async with running(node) as workers:
        node.outcomes = [Outcome(failures=(WAITING,), wake_at=node.clock.monotonic() + 20)]
        workers.update(make_pod("u1"))
        await node.clock.advance(19.9)
        assert node.calls == ["sync u1"]
        await node.clock.advance(0.2)
        assert node.calls[:2] == ["sync u1", "sync u1"]
        assert node.running == {U1: "web"}


async def test_failures_show_in_the_status_and_are_retried() -> None:
    node = Node(outcomes=[Outcome(failures=(BROKEN,)), Outcome(failures=(BROKEN,))])
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.reports[-1][1].failures == (BROKEN,)
        await node.clock.advance(9)
        assert len(node.calls) == 1
        await node.clock.advance(7)
        assert len(node.calls) == 2


async def test_volumes_that_cannot_be_mounted_keep_the_containers_from_starting() -> None:
    node = Node(prepare_failures=[(BROKEN,)])
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert not node.calls
        assert node.reports[-1][1].failures == (BROKEN,)
        await node.clock.advance(16)
        assert node.running == {U1: "web"}


async def test_pod_waits_for_the_network_unless_it_uses_the_hosts() -> None:
    node = Node(conditions_now=RuntimeConditions(True, False, "cni plugin not initialized"))
    host = make_pod("u2", "h")
    host = replace(host, spec=replace(host.spec, host_network=True))
    async with running(node) as workers:
        workers.update(make_pod("u1", "a"))
        workers.update(host)
        await node.clock.settle()
        assert node.running == {U2: "h"}
        assert any("NetworkNotReady" in event and "cni plugin" in event for event in node.events)
        node.conditions_now = RuntimeConditions(True, True)
        await node.clock.advance(2)
        assert set(node.running) == {U1, U2}


async def test_no_pod_is_synced_before_the_runtime_has_replied() -> None:
    node = Node(runtime_known=False)
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.advance(5)
        assert not node.reports
        assert not node.events
        node.runtime_known = True
        workers.poke_all()
        await node.clock.settle()
        assert node.running == {U1: "web"}


async def test_ended_pod_is_cleaned_up_and_keeps_its_worker() -> None:
    node = Node(exited={U1})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.calls == ["kill u1 grace=None", "release u1"]
        assert list(workers.known) == [U1]
        workers.poke(U1)
        await node.clock.advance(200)
        assert node.calls == ["kill u1 grace=None", "release u1"]
        workers.remove(U1)
        await node.clock.settle()
        assert node.calls[2:] == ["remove u1", "forget u1", "status-remove u1"]


async def test_the_active_deadline_ends_a_pod_on_time() -> None:
    node = Node()
    node.start_time = node.clock.now()
    pod = make_pod("u1")
    pod = replace(pod, spec=replace(pod.spec, active_deadline_seconds=5))
    async with running(node) as workers:
        workers.update(pod)
        await node.clock.advance(4.5)
        assert U1 in node.running
        await node.clock.advance(1)
        assert U1 not in node.running
        assert node.reports[-1][1].terminal_reason == "DeadlineExceeded"
        message = "Pod was active on the node longer than the specified deadline"
        assert f"Normal DeadlineExceeded {message}" in node.events


@pytest.mark.parametrize("error", [Permanent("broken"), Transient("away"), Transient("away", retry_after=3.0)])
async def test_errors_of_the_runtime_are_retried(error: Permanent | Transient) -> None:
    node = Node(errors={"status": [error]})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert not node.running
        await node.clock.advance(16)
        assert node.running == {U1: "web"}


async def test_unexpected_exception_in_a_step_is_retried_and_affects_no_other_pod() -> None:
    node = Node(errors={"sync": [RuntimeError("defect")]})  # type: ignore[list-item]  # a defect, on purpose
    before = item_failures().get("workers.pods", 0)
    async with running(node) as workers:
        workers.update(make_pod("u1", "a"))
        workers.update(make_pod("u2", "b"))
        await node.clock.settle()
        assert node.running == {U2: "b"}
        assert item_failures()["workers.pods"] - before == 1
        await node.clock.advance(2)
        assert set(node.running) == {U1, U2}


async def test_exception_after_the_end_of_a_worker_affects_no_other_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel = WakeTimers.cancel

    def cancelled(self: WakeTimers, uid: PodUID) -> None:
        if uid == U1:
            raise RuntimeError("defect")
        cancel(self, uid)

    monkeypatch.setattr(WakeTimers, "cancel", cancelled)
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1", "a"))
        workers.update(make_pod("u2", "b"))
        await node.clock.settle()
        before = item_failures()["workers.ends"]
        workers.remove(U1)
        await node.clock.advance(60)
        assert item_failures()["workers.ends"] == before + 1
        assert node.running == {U2: "b"}
        workers.remove(U2)
        await node.clock.advance(60)
        assert node.running == {}


async def test_orphan_of_the_runtime_is_stopped_and_removed() -> None:
    node = Node(running={U1: "web"})
    async with running(node) as workers:
        workers.adopt_orphan(PodRef("default", "web", U1))
        workers.adopt_orphan(PodRef("default", "web", U1))
        await node.clock.settle()
        assert node.calls == ["kill u1 grace=1", "release u1", "remove u1", "forget u1", "status-remove u1"]


def _deleted(uid: str) -> Pod:
    pod = make_pod(uid, source="api")
    meta = replace(pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=1)
    return replace(pod, metadata=meta)


async def test_pod_that_is_deleted_before_its_restart_does_not_start() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1", source="api"))
        await node.clock.settle()
        workers.remove(U1)
        workers.update(make_pod("u1", source="api"))
        await node.clock.settle()
        workers.update(_deleted("u1"))
        await node.clock.advance(10)
        assert not node.running
        assert list(workers.known) == [U1]


async def test_orphan_that_its_source_can_read_again_is_reported_and_stays_until_it_is_removed() -> None:
    node = Node(running={U1: "web"}, hold={"release": asyncio.Event()})
    async with running(node) as workers:
        workers.adopt_orphan(PodRef("default", "web", U1))
        await node.clock.settle()
        workers.update(_deleted("u1"))
        node.hold.pop("release").set()
        await node.clock.advance(10)
        assert list(workers.known) == [U1], "its source lists it, and its object is to be deleted by its final status"


async def test_failed_release_is_retried_before_removal() -> None:
    node = Node(errors={"release": [Transient("busy")]})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        assert "remove u1" not in node.calls
        await node.clock.advance(2)
        assert node.calls[-3:] == ["remove u1", "forget u1", "status-remove u1"]


async def test_idle_pods_are_synced_once_a_minute() -> None:
    node = Node()
    async with running(node) as workers:
        for i in range(100):
            workers.update(make_pod(f"u{i}", f"n{i}"))
        await node.clock.settle()
        node.calls.clear()
        await node.clock.advance(59)
        assert not node.calls
        await node.clock.advance(32)
        assert len(node.calls) == 100


async def test_decisions_of_steps_and_changes_are_recorded_until_the_pod_is_removed() -> None:
    node = Node(outcomes=[Outcome(failures=(BROKEN,))])
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.journal.reported == ["u1: container c: retry: RunContainerError: no such file"]
        workers.remove(U1)
        assert node.journal.reported[1:] == ["u1: pod : stop and remove: no source lists the pod any more: "]
        assert node.journal.forgotten == []
        await node.clock.settle()
    assert node.journal.reported[2:] == [
        "u1: pod : release volumes and cgroups: no container runs any more: ",
    ]
    assert node.journal.forgotten == [U1]


async def test_state_and_next_sync_of_a_worker_are_known() -> None:
    node = Node()
    async with running(node) as workers:
        assert (workers.state(U1), workers.next_sync(U1)) == (None, None)
        workers.update(make_pod("u1"))
        await node.clock.settle()
        state, following = workers.state(U1), workers.next_sync(U1)
        assert state is not None
        assert state.phase is Phase.SYNC
        assert following is not None
        assert 60 <= following - node.clock.monotonic() <= 90


async def test_rejected_pod_fails_at_once_and_never_starts() -> None:
    node = Node()
    async with running(node) as workers:
        workers.reject(make_pod("u1"), "OutOfcpu", "too little")
        assert node.calls == ["reject u1 OutOfcpu"]
        workers.poke(U1)
        workers.update(make_pod("u1"))
        await node.clock.advance(200)
        assert node.running == {}
        assert not node.reports
        assert not [call for call in node.calls if call.startswith(("sync", "terminate"))]
        assert list(node.table.active()) == []
        workers.remove(U1)
        await node.clock.settle()
        assert list(workers.known) == []


async def test_rejected_pod_of_an_earlier_run_is_stopped() -> None:
    node = Node(running={U1: "web"})
    async with running(node) as workers:
        workers.reject(make_pod("u1"), "NodeAffinity", "moved")
        await node.clock.settle()
        assert node.running == {}


async def test_new_sandbox_is_reported_before_the_containers_are_started() -> None:
    node = Node(new_sandbox=SandboxStatus(id=SandboxID("sb1"), ready=True, ips=("10.0.0.9",), host_network=False))
    node.hold["sync"] = asyncio.Event()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.reports[-1][1].runtime.sandboxes == (node.new_sandbox,)
        node.hold["sync"].set()


async def test_pod_ended_by_the_node_fails_with_the_reason() -> None:
    node = Node()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert [pod.metadata.uid for pod in node.table.active()] == ["u1"]
        node.hold["kill"] = asyncio.Event()
        workers.fail(U1, "Preempting", "made room")
        await node.clock.settle()
        assert [pod.metadata.uid for pod in node.table.evictable(1)] == ["u1"]
        workers.fail(U1, "Evicted", "no memory", 1)
        await node.clock.settle()
        assert list(node.table.evictable(1)) == []
        assert [pod.metadata.uid for pod in node.table.active()] == ["u1"], (
            "its resources are in use until it has stopped"
        )
        assert not any(source.stopped for _, source in node.reports)
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.running == {} and list(node.table.active()) == []
        last = node.reports[-1][1]
        assert (last.terminal_reason, last.terminal_message, last.terminating) == ("Evicted", "no memory", True)
        assert last.stopped and (last.disruption_reason, last.disruption_message) == ("Evicted", "no memory")
        workers.fail(U1, "Evicted", "too late")
        workers.fail(U2, "Evicted", "unknown pod")
        await node.clock.settle()
        assert [state.terminal_message for state in node.table.states] == ["no memory"]


async def test_readiness_of_a_pod_is_reported_while_it_is_being_stopped() -> None:
    node = Node()
    node.hold["kill"] = asyncio.Event()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.poke(U1, probed=True)
        workers.remove(U1)
        await node.clock.settle()
        node.reports.clear()
        workers.poke(U1, probed=True)
        workers.poke(U2, probed=True)
        assert [(uid, source.terminating, source.stopped) for uid, source in node.reports] == [(U1, True, False)]
        node.hold["kill"].set()
        await node.clock.settle()
        node.reports.clear()
        workers.poke(U1, probed=True)
        assert node.reports == []


async def test_end_of_a_container_that_is_being_stopped_does_not_compute_the_status() -> None:
    """Nothing is known of it before the stop has ended and the runtime's state is read again."""
    node = Node()
    node.hold["kill"] = asyncio.Event()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        node.reports.clear()
        workers.poke(U1)
        assert node.reports == []
        node.hold["kill"].set()
        await node.clock.settle()
        assert [(source.terminating, source.stopped) for _, source in node.reports] == [(True, True)]


async def test_pod_listed_again_while_stopping_may_be_rejected() -> None:
    node = Node()
    node.hold["kill"] = asyncio.Event()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        workers.reject(make_pod("u1"), "OutOfpods", "full")
        await node.clock.settle()
        assert "reject u1 OutOfpods" not in node.calls
        node.hold["kill"].set()
        await node.clock.settle()
        assert "reject u1 OutOfpods" in node.calls
        assert node.running == {}
        assert [state.rejected for state in node.table.states] == [True]


async def test_rejected_pod_admitted_later_starts() -> None:
    node = Node()
    async with running(node) as workers:
        workers.reject(make_pod("u1"), "OutOfpods", "full")
        await node.clock.settle()
        workers.remove(U1)
        workers.update(make_pod("u1"))
        assert [pod.metadata.uid for pod in node.table.active()] == ["u1"]
        await node.clock.settle()
        assert node.running == {U1: "web"}


async def test_pod_has_ended_when_no_container_runs() -> None:
    node = Node()
    node.hold["kill"] = asyncio.Event()
    async with running(node) as workers:
        assert node.table.ended(U1)
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.fail(U1, "Evicted", "too big", 1)
        await node.clock.settle()
        assert not node.table.ended(U1)
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.table.ended(U1)


async def test_pod_may_run_while_it_is_being_stopped_and_is_released_with_its_volumes() -> None:
    node = Node()
    node.hold["kill"], node.hold["release"] = asyncio.Event(), asyncio.Event()
    async with running(node) as workers:
        pods = node.table
        workers.update(make_pod("u1"))
        await node.clock.settle()
        pods.fail(U1, "Terminated", "shutdown", 1)
        await node.clock.settle()
        assert [pod.metadata.uid for pod in pods.running()] == ["u1"]
        assert not pods.released(U1)
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.table.ended(U1)
        assert pods.running() == []
        assert not pods.released(U1)
        node.hold["release"].set()
        await node.clock.settle()
        assert pods.released(U1)


async def test_pod_marked_for_deletion_while_the_agent_did_not_run_is_only_stopped() -> None:
    node = Node()
    async with running(node) as workers:
        pod = make_pod("u1")
        meta = replace(
            pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=7
        )
        workers.update(replace(pod, metadata=meta))
        await node.clock.settle()
        assert node.running == {} and "kill u1 grace=7" in node.calls
        assert not any(call.startswith("sync") for call in node.calls)


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_retry_after_the_wall_clock_jumped_comes_when_it_was_due(jump: float) -> None:
    node = Node(outcomes=[Outcome(failures=(BROKEN,))])
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        node.clock.jump_wall(jump)
        await node.clock.advance(9.9)
        assert node.calls == ["sync u1"]
        await node.clock.advance(5.2)
        assert node.running == {U1: "web"}


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_back_off_after_the_wall_clock_jumped_is_waited_for_exactly(jump: float) -> None:
    node = Node()
    async with running(node) as workers:
        node.outcomes = [Outcome(failures=(WAITING,), wake_at=node.clock.monotonic() + 20)]
        workers.update(make_pod("u1"))
        await node.clock.advance(10)
        node.clock.jump_wall(jump)
        await node.clock.advance(9.9)
        assert node.calls == ["sync u1"]
        await node.clock.advance(0.2)
        assert node.running == {U1: "web"}


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_active_deadline_after_the_wall_clock_jumped_ends_the_pod_on_time(jump: float) -> None:
    node = Node()
    node.start_time = node.clock.now() - 100
    pod = make_pod("u1")
    pod = replace(pod, spec=replace(pod.spec, active_deadline_seconds=105))
    async with running(node) as workers:
        workers.update(pod)
        await node.clock.advance(1)
        node.clock.jump_wall(jump)
        await node.clock.advance(3.5)
        assert U1 in node.running
        await node.clock.advance(1)
        assert U1 not in node.running
        assert node.reports[-1][1].terminal_reason == "DeadlineExceeded"


def test_impossible_phase_is_refused_with_the_workers_history() -> None:
    node, pod = Node(), make_pod("u1")
    worker = PodWorker(
        WorkerState(ref_of(pod), pod),
        take_step=node.steps().take,
        set_timer=lambda at: None,
        journal=node.journal,
        telemetry=node.deps().telemetry,
    )
    worker.change(replace(worker.state, phase=Phase.TERMINATING))
    with pytest.raises(Permanent, match=r"is terminating, it cannot become sync \(history: sync .* terminating "):
        worker.change(replace(worker.state, phase=Phase.SYNC))
    assert worker.state.phase is Phase.TERMINATING
