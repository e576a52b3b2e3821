"""The decisions of a worker: from the results of its steps, and from changes of the pod."""

from msgspec.structs import replace

from pykubelet.kubelet.control.workers.plan.decisions import change_decisions, step_decisions
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import pod

STATE = WorkerState(ref_of(pod()), pod())


def reported(decisions: object) -> list[tuple[str, str, str, str]]:
    assert isinstance(decisions, tuple | list)
    return [(d.topic, d.subject, d.action, d.reason) for d in decisions]


def test_failures_follow_the_decisions_of_a_sync() -> None:
    start = Decision(Topic.CONTAINER, "app", "start", "it has not been created yet")
    failures = (
        Failure(SyncAction.PREPARE, "web", "FailedMount", "not found"),
        Failure(SyncAction.START_CONTAINER, "app", "CrashLoopBackOff", "back-off", transient=True),
    )
    result = StepResult(failures=failures, decisions=(start,))
    assert reported(step_decisions(Phase.SYNC, result, STATE)) == [
        ("container", "app", "start", "it has not been created yet"),
        ("volumes", "", "retry", "FailedMount"),
        ("container", "app", "wait", "CrashLoopBackOff"),
    ]


def test_start_that_waits_for_a_back_off_is_no_start() -> None:
    start = Decision(Topic.CONTAINER, "app", "start", "exited with code 1")
    other = Decision(Topic.CONTAINER, "b", "start", "exited with code 1")
    failure = Failure(SyncAction.START_CONTAINER, "app", "CrashLoopBackOff", "", True, retry_at=1.0)
    result = StepResult(failures=(failure,), decisions=(start, other))
    assert [each.idle for each in step_decisions(Phase.SYNC, result, STATE)] == [True, False, False]


def test_step_that_reaches_its_goal_says_what_follows() -> None:
    done = StepResult(finished=True)
    for phase, following, action, reason in (
        (Phase.SYNC, Phase.TERMINATING, "stop all containers", "all its containers have ended"),
        (Phase.TERMINATING, Phase.TERMINATED, "release volumes and cgroups", "no container runs any more"),
    ):
        assert reported(step_decisions(phase, done, replace(STATE, phase=following))) == [("pod", "", action, reason)]
    late = StepResult(finished=True, terminal_reason="DeadlineExceeded", terminal_message="too long")
    (decision,) = step_decisions(Phase.SYNC, late, replace(STATE, phase=Phase.TERMINATING))
    assert (decision.action, decision.reason, decision.message) == ("stop", "DeadlineExceeded", "too long")
    assert step_decisions(Phase.SYNC, StepResult(), STATE) == ()


def test_changes_from_outside_are_decisions() -> None:
    gone = replace(STATE, wanted=False, phase=Phase.TERMINATING)
    assert reported(list(change_decisions(STATE, gone))) == [
        ("pod", "", "stop and remove", "no source lists the pod any more")
    ]
    evicted = replace(STATE, terminal_reason="Evicted", terminal_message="memory")
    assert reported(list(change_decisions(STATE, evicted))) == [("pod", "", "stop", "Evicted")]
    preempted = replace(STATE, terminal_reason="Preempting", terminal_message="room")
    assert reported(list(change_decisions(preempted, evicted))) == [("pod", "", "stop", "Evicted")]
    assert list(change_decisions(evicted, replace(evicted, grace_seconds=1))) == []
    meta = replace(pod().metadata, deletion_timestamp=time_from_unix(1.0))
    deleted = replace(STATE, pod=replace(pod(), metadata=meta), grace_seconds=5)
    (decision,) = change_decisions(STATE, deleted)
    assert (decision.reason, decision.message) == ("the pod is marked for deletion", "grace 5 s")
    spec = replace(pod().spec, hostname="other")
    assert reported(list(change_decisions(STATE, replace(STATE, pod=replace(pod(), spec=spec))))) == [
        ("pod", "", "update", "its source has a new version of it")
    ]
    assert reported(list(change_decisions(gone, replace(gone, restart=pod())))) == [
        ("pod", "", "start again after it has stopped", "a source lists the pod again")
    ]
    assert list(change_decisions(STATE, replace(STATE, pod=pod()))) == []
