"""The pod worker's state machine."""

from dataclasses import replace as replace_dataclass

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from tests.unit.kubelet.control.workers.states import HARD, pod, state

SOFT = replace_dataclass(HARD, transient=True)
UNPREPARED = replace_dataclass(HARD, action=SyncAction.PREPARE)


def test_pod_passes_all_phases_from_sync_to_removed() -> None:
    s = state()
    assert lifecycle.next_phase(s) is Phase.SYNC
    s = lifecycle.stepped(s, Phase.SYNC, StepResult())
    assert s.phase is Phase.SYNC
    s = lifecycle.removed(s)
    assert lifecycle.next_phase(s) is Phase.TERMINATING
    s = lifecycle.stepped(s, Phase.TERMINATING, StepResult(finished=True))
    assert lifecycle.next_phase(s) is Phase.TERMINATED
    s = lifecycle.stepped(s, Phase.TERMINATED, StepResult(finished=True))
    assert lifecycle.next_phase(s) is Phase.REMOVED
    s = lifecycle.stepped(replace(s, done=False), Phase.REMOVED, StepResult(finished=True))
    assert lifecycle.is_gone(s)


def test_ended_pod_stays_terminated_until_its_source_removes_it() -> None:
    s = lifecycle.stepped(state(), Phase.SYNC, StepResult(finished=True))
    s = lifecycle.stepped(s, Phase.TERMINATING, StepResult(finished=True))
    s = lifecycle.stepped(s, Phase.TERMINATED, StepResult(finished=True))
    assert lifecycle.next_phase(s) is None
    assert lifecycle.next_phase(lifecycle.wanted(s, pod())) is None
    assert lifecycle.next_phase(lifecycle.removed(s)) is Phase.REMOVED


@pytest.mark.parametrize("phase", [Phase.TERMINATING, Phase.TERMINATED, Phase.REMOVED])
def test_pod_listed_again_while_stopping_is_restarted_afterwards(phase: Phase) -> None:
    s = lifecycle.wanted(state(phase, wanted=False), pod())
    assert s.phase is phase
    assert s.restart is not None
    assert lifecycle.removed(s).restart is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(None, None, None), (None, 5, 5), (None, 40, 30), (30, 5, 5), (5, 30, 5), (5, None, 5), (60, 40, 40)],
)
def test_shortest_grace_period_wins(first: int | None, second: int | None, expected: int | None) -> None:
    assert lifecycle.removed(lifecycle.removed(state(), first), second).grace_seconds == expected


def test_pod_marked_for_deletion_is_terminated_with_its_own_grace_period() -> None:
    s = lifecycle.wanted(state(), pod(deleted=True, grace=3))
    assert (s.phase, s.grace_seconds, s.wanted) == (Phase.TERMINATING, 3, True)


def test_step_is_interrupted_by_termination_and_shorter_grace() -> None:
    running = state()
    assert lifecycle.interrupts(running, lifecycle.removed(running))
    assert not lifecycle.interrupts(running, lifecycle.wanted(running, pod()))
    stopping = lifecycle.removed(running, 30)
    assert lifecycle.interrupts(stopping, lifecycle.removed(stopping, 5))
    assert not lifecycle.interrupts(stopping, lifecycle.removed(stopping, 40))
    released = state(Phase.TERMINATED, wanted=False)
    assert not lifecycle.interrupts(released, lifecycle.removed(released, 1))


def test_pod_that_is_being_stopped_gets_no_longer_grace_period_by_its_deletion() -> None:
    """A pod whose deadline has passed could run on for years otherwise, by `kubectl delete --grace-period`."""
    late = StepResult(finished=True, terminal_reason="DeadlineExceeded", terminal_message="late")
    stopping = lifecycle.stepped(state(), Phase.SYNC, late)
    assert (stopping.phase, stopping.grace_seconds) == (Phase.TERMINATING, None)
    deleted = lifecycle.wanted(stopping, pod(deleted=True, grace=2_000_000_000))
    assert deleted.grace_seconds == 30 and deleted.pod == pod(deleted=True, grace=2_000_000_000)
    assert not lifecycle.interrupts(stopping, deleted)
    assert lifecycle.interrupts(stopping, lifecycle.wanted(stopping, pod(deleted=True, grace=5)))


def test_sync_that_ends_after_removal_does_not_undo_the_removal() -> None:
    s = lifecycle.stepped(lifecycle.removed(state()), Phase.SYNC, StepResult())
    assert s.phase is Phase.TERMINATING
    s = lifecycle.stepped(s, Phase.SYNC, StepResult(finished=True, terminal_reason="DeadlineExceeded"))
    assert (s.phase, s.terminal_reason) == (Phase.TERMINATING, "DeadlineExceeded")


@pytest.mark.parametrize(
    ("failures", "wake_at", "low", "high"),
    [
        ((), None, 60, 90),
        ((), 5.0, 5, 5),
        ((), 500.0, 60, 90),
        ((HARD,), None, 10, 15),
        ((HARD,), 3.0, 3, 3),
        ((SOFT,), None, 1, 1.5),
        ((SOFT,), 20.0, 20, 20),
        ((SOFT, HARD), None, 10, 15),
        ((SOFT,), -5.0, 0, 0),
    ],
)
def test_next_sync_time_depends_on_the_result(
    failures: tuple[Failure, ...], wake_at: float | None, low: float, high: float
) -> None:
    now = 1000.0
    result = StepResult(failures=failures, wake_at=None if wake_at is None else now + wake_at)
    s = lifecycle.stepped(state(), Phase.SYNC, result)
    for jitter in (0.0, 0.999):
        assert low <= lifecycle.retry_at(s, result, now, jitter) - now <= high


@pytest.mark.parametrize("phase", [Phase.TERMINATING, Phase.TERMINATED, Phase.REMOVED])
def test_step_of_the_end_that_has_not_finished_is_retried_after_a_second(phase: Phase) -> None:
    assert lifecycle.retry_at(state(phase), StepResult(), 1000.0, 0.0) == 1001.0
    assert lifecycle.retry_at(state(phase), StepResult(finished=True), 1000.0, 0.0) == 1060.0
    assert lifecycle.retry_at(state(), StepResult(), 1000.0, 0.0) == 1060.0


@pytest.mark.parametrize("phase", [Phase.SYNC, Phase.TERMINATING])
def test_pod_that_the_node_fails_ends_with_the_last_reason(phase: Phase) -> None:
    """A pod that is to make room for another one, and is evicted while it ends, was evicted."""
    s = lifecycle.failed(state(phase), "Preempting", "another pod", 5)
    assert (s.phase, s.terminal_reason, s.terminal_message) == (Phase.TERMINATING, "Preempting", "another pod")
    assert (s.grace_seconds, s.disruption_reason, s.disruption_message) == (5, "Preempting", "another pod")
    s = lifecycle.failed(s, "Evicted", "no memory", 2)
    assert (s.terminal_reason, s.terminal_message, s.grace_seconds) == ("Evicted", "no memory", 2)
    assert (s.disruption_reason, s.disruption_message) == ("Evicted", "no memory")
    s = lifecycle.failed(s, "Evicted", "own limit", 1, disrupts=False)
    assert (s.terminal_message, s.disruption_message) == ("own limit", "no memory")


@pytest.mark.parametrize("grace", [None, 1, 30])
def test_pod_whose_end_does_not_begin_again_keeps_its_reason(grace: int | None) -> None:
    """A shutdown, or another pod that needs room, does not change why a pod ends that was evicted before."""
    evicted = lifecycle.failed(state(), "Evicted", "no memory", 1)
    s = lifecycle.failed(evicted, "Terminated", "shutdown", grace)
    assert not lifecycle.interrupts(evicted, s) and s.grace_seconds == 1
    assert (s.terminal_reason, s.terminal_message) == ("Evicted", "no memory")
    assert (s.disruption_reason, s.disruption_message) == ("Evicted", "no memory")
    deleted = lifecycle.removed(state(), 1)
    s = lifecycle.failed(deleted, "Terminated", "shutdown", grace)
    assert (s.terminal_reason, s.disruption_reason) == ("", "")


def test_pod_that_exceeded_a_limit_of_its_own_is_not_disrupted() -> None:
    s = lifecycle.failed(state(), "Evicted", "own limit", 1, disrupts=False)
    assert (s.terminal_reason, s.disruption_reason) == ("Evicted", "")


def test_pod_whose_deadline_has_passed_keeps_that_reason_and_is_disrupted_by_its_eviction() -> None:
    late = StepResult(finished=True, terminal_reason="DeadlineExceeded", terminal_message="late")
    s = lifecycle.failed(lifecycle.stepped(state(), Phase.SYNC, late), "Evicted", "no memory", 1)
    assert (s.terminal_reason, s.terminal_message, s.grace_seconds) == ("DeadlineExceeded", "late", 1)
    assert (s.disruption_reason, s.disruption_message) == ("Evicted", "no memory")


def test_pod_that_was_never_admitted_keeps_its_reason() -> None:
    refused = state(Phase.TERMINATING, rejected=True, terminal_reason="OutOfcpu")
    assert lifecycle.failed(refused, "Terminated", "shutdown", 1) is refused


@pytest.mark.parametrize("phase", [Phase.TERMINATED, Phase.REMOVED])
def test_pod_that_has_ended_is_not_failed(phase: Phase) -> None:
    before = state(phase)
    assert lifecycle.failed(before, "Evicted", "no memory", 5) == before


def test_pod_may_be_evicted_while_it_is_active_and_once() -> None:
    assert lifecycle.is_evictable(state(), 1)
    evicted = lifecycle.failed(state(), "Evicted", "no memory", 1)
    assert evicted.evicted and not (lifecycle.is_evictable(evicted, 1) or lifecycle.is_evictable(evicted, 0))
    assert not lifecycle.is_evictable(state(Phase.TERMINATED), 1)
    again = lifecycle.wanted(lifecycle.removed(state(Phase.TERMINATED)), pod())
    assert lifecycle.is_active(again) and not lifecycle.is_evictable(again, 1), "nothing runs that could be ended"


def test_pod_with_a_grace_period_of_the_node_may_be_evicted_with_a_shorter_one() -> None:
    """After a soft eviction memory may become so short that it cannot wait; other pods would be evicted instead."""
    soft = lifecycle.failed(state(), "Evicted", "little memory", 60)
    assert not lifecycle.is_evictable(soft, 60) and lifecycle.is_evictable(soft, 1)
    hard = lifecycle.failed(soft, "Evicted", "no memory", 1)
    assert (hard.grace_seconds, hard.terminal_message) == (1, "no memory")
    assert lifecycle.interrupts(soft, hard) and not lifecycle.is_evictable(hard, 1)


def test_pod_that_takes_its_own_time_to_end_may_be_evicted() -> None:
    """Its grace period may be years, in which it fills the disk."""
    late = StepResult(finished=True, terminal_reason="DeadlineExceeded", terminal_message="late")
    for ending in (
        lifecycle.stepped(state(), Phase.SYNC, late),
        lifecycle.failed(state(), "Preempting", "made room"),
        lifecycle.wanted(lifecycle.stepped(state(), Phase.SYNC, late), pod(deleted=True, grace=2_000_000_000)),
    ):
        assert (ending.phase, ending.terminal_reason != "") == (Phase.TERMINATING, True)
        assert lifecycle.is_evictable(ending, 1) and not ending.evicted
        evicted = lifecycle.failed(ending, "Evicted", "no memory", 1)
        assert (evicted.disruption_reason, evicted.grace_seconds) == ("Evicted", 1)
        assert evicted.evicted and not lifecycle.is_evictable(evicted, 1)


def test_failed_preparation_is_retried_with_growing_delay() -> None:
    s, delays = state(), []
    for _ in range(7):
        result = StepResult(failures=(UNPREPARED,))
        s = lifecycle.stepped(s, Phase.SYNC, result)
        delays.append(lifecycle.retry_at(s, result, 1000.0, 0.0) - 1000.0)
    assert delays == [0.5, 1, 2, 4, 8, 10, 10]
    mixed = StepResult(failures=(UNPREPARED, HARD))
    assert lifecycle.retry_at(lifecycle.stepped(state(), Phase.SYNC, mixed), mixed, 0.0, 0.0) == 10


def test_consecutive_errors_are_counted() -> None:
    s = lifecycle.stepped(state(), Phase.SYNC, StepResult(failures=(HARD,)))
    s = lifecycle.stepped(s, Phase.SYNC, StepResult(failures=(HARD,)))
    assert (s.errors, s.failures) == (2, (HARD,))
    s = lifecycle.stepped(s, Phase.SYNC, StepResult(failures=(SOFT,)))
    assert (s.errors, s.failures) == (0, (SOFT,))


def test_transition_table_has_no_way_back() -> None:
    order = list(Phase)
    transitions = lifecycle.LIFE_CYCLE.transitions
    assert all(order.index(a) < order.index(b) for a, _, b in transitions)
    assert {a for a, _, _ in transitions} | {b for _, _, b in transitions} == set(Phase)


def _events(s: WorkerState) -> list[WorkerState]:
    return [
        lifecycle.wanted(s, pod()),
        lifecycle.wanted(s, pod(deleted=True, grace=1)),
        lifecycle.refused(s, pod(), "Refused", "message"),
        lifecycle.failed(s, "Evicted", "message", 1),
        lifecycle.removed(s),
        lifecycle.removed(s, 0),
    ]


def _continued(s: WorkerState, running: Phase | None) -> list[tuple[WorkerState, Phase | None]]:
    """All that can follow a state, as in `PodWorker`: events, the begin of a step, its cancellation and its results."""
    following: list[tuple[WorkerState, Phase | None]] = [(each, running) for each in _events(s)]
    if running is not None:
        results = [StepResult(finished=finished, again=again) for finished in (False, True) for again in (False, True)]
        return [*following, (s, None), *((lifecycle.stepped(s, running, each), None) for each in results)]
    begun = None if lifecycle.is_gone(s) else lifecycle.next_phase(s)
    return following if begun is None else [*following, (replace(s, phase=begun, done=False), begun)]


def test_no_sequence_of_events_and_steps_leaves_the_transition_table() -> None:
    todo: list[tuple[WorkerState, Phase | None]] = [
        (state(), None),
        (state(Phase.TERMINATING, rejected=True, terminal_reason="Refused"), None),
        (state(Phase.TERMINATING, pod=None, wanted=False), None),
    ]
    seen: set[str] = set()
    while todo:
        before, running = todo.pop()
        if (key := repr((before, running))) in seen:
            continue
        seen.add(key)
        for after, step in _continued(before, running):
            if after.phase is not before.phase:
                assert after.phase in lifecycle.LIFE_CYCLE.following(before.phase), f"{before} -> {after}"
            todo.append((after, step))
    assert len(seen) > 100


def test_rejected_pod_never_runs() -> None:
    assert lifecycle.may_run(state())
    assert lifecycle.may_run(state(Phase.TERMINATING))
    assert not lifecycle.may_run(state(Phase.TERMINATING, rejected=True))
    assert not lifecycle.may_run(state(Phase.TERMINATED))
