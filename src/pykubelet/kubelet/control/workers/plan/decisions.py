"""The decisions of a pod worker with their reasons, from its states and the results of its steps. Pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.reports.decisions import Decision, Topic

_TOPICS = {
    SyncAction.PREPARE: Topic.VOLUMES,
    SyncAction.CREATE_SANDBOX: Topic.SANDBOX,
    SyncAction.KILL_POD: Topic.POD,
    SyncAction.RESIZE: Topic.POD,
}
_LEFT = {
    Phase.SYNC: "all its containers have ended",
    Phase.TERMINATING: "no container runs any more",
    Phase.TERMINATED: "volumes and cgroups are released, and no source lists it",
    Phase.REMOVED: "nothing of it is left",
}
_DOES = {
    Phase.SYNC: "sync",
    Phase.TERMINATING: "stop all containers",
    Phase.TERMINATED: "release volumes and cgroups",
    Phase.REMOVED: "remove containers and records",
}


def step_decisions(phase: Phase, result: StepResult, after: WorkerState) -> tuple[Decision, ...]:
    """Return the decisions of a step, and what follows from its result. ``after``: the state that it led to."""
    waiting = {failure.target for failure in result.failures if failure.retry_at is not None}
    decided = (
        # A container in back-off is not started yet.
        replace(each, idle=True) if each.topic is Topic.CONTAINER and each.subject in waiting else each
        for each in result.decisions
    )
    return (*decided, *map(_failure, result.failures), *_transition(phase, result, after))


def change_decisions(before: WorkerState, after: WorkerState) -> Iterator[Decision]:
    """Yield the decisions that a change from outside led to: another version, removal, deletion, eviction."""
    if (after.terminal_reason, after.terminal_message) != (before.terminal_reason, before.terminal_message):
        yield Decision(Topic.POD, "", "stop", after.terminal_reason, after.terminal_message)
    if before.wanted and not after.wanted:
        yield Decision(Topic.POD, "", "stop and remove", "no source lists the pod any more")
    if after.restart is not None and before.restart is None:
        yield Decision(Topic.POD, "", "start again after it has stopped", "a source lists the pod again")
    if before.pod is not None and after.pod is not None and before.pod is not after.pod:
        if after.pod.metadata.deletion_timestamp is not None and before.pod.metadata.deletion_timestamp is None:
            yield Decision(Topic.POD, "", "stop", "the pod is marked for deletion", f"grace {after.grace_seconds} s")
        elif before.pod.spec != after.pod.spec:
            yield Decision(Topic.POD, "", "update", "its source has a new version of it")


def _failure(failure: Failure) -> Decision:
    topic = _TOPICS.get(failure.action, Topic.CONTAINER)
    subject = failure.target if topic is Topic.CONTAINER else ""
    return Decision(topic, subject, "wait" if failure.transient else "retry", failure.reason, failure.message)


def _transition(phase: Phase, result: StepResult, after: WorkerState) -> Iterator[Decision]:
    if not result.finished:
        return
    if phase is Phase.SYNC and result.terminal_reason:
        yield Decision(Topic.POD, "", "stop", result.terminal_reason, result.terminal_message)
    elif after.phase is not phase:
        yield Decision(Topic.POD, "", _DOES[after.phase], _LEFT[phase])
