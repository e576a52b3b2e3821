"""Explanations: what a pod waits for, by the failures, probes and steps that are known of it."""

from typing import Any

from pykubelet.kubelet.report.explain import Situation, explain
from pykubelet.kubelet.report.explain.journal_types import Entry, PodJournal
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.probes import ProbeReport, ProbeResult, ProbeType
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.kubelet.types.reports.explain_views import WaitView
from pykubelet.kubelet.types.reports.timeline_views import StepView, TimelineView
from tests.unit.kubelet.report.pods import NOW, pod

ADMITTED = Entry(Decision(Topic.ADMISSION, "", "admit", "no rule rejects it"), NOW - 60, NOW - 60)
STARTED = Entry(Decision(Topic.CONTAINER, "app", "start", "exited with code 1"), NOW - 50, NOW - 5, 4)


def given(**fields: Any) -> Situation:
    return Situation(**{"pod": pod(), "journal": PodJournal(), "monotonic": 100.0, **fields})


def probe(**fields: Any) -> ProbeReport:
    defaults = {"container": "app", "probe_type": ProbeType.READINESS, "conclusion": ProbeResult.FAILURE}
    return ProbeReport(**{**defaults, "last": None, "run": 0, "failure_threshold": 3, **fields})


def waits(**fields: Any) -> tuple[WaitView, ...]:
    return explain(given(**fields)).waits


def test_back_off_has_the_time_left() -> None:
    failure = Failure(SyncAction.START_CONTAINER, "app", "CrashLoopBackOff", "back-off 40s", True, retry_at=134.5)
    (wait,) = waits(failures=(failure,), next_sync=110.0)
    assert wait == WaitView(
        kind="backOff", subject="app", reason="CrashLoopBackOff", message="back-off 40s", seconds_left=34.5
    )


def test_volumes_and_other_failures_have_the_time_of_the_next_sync() -> None:
    volumes = Failure(SyncAction.PREPARE, "web", "FailedMount", 'configmap "x" not found')
    create = Failure(SyncAction.START_CONTAINER, "app", "CreateContainerError", "no")
    first, second = waits(failures=(volumes, create), next_sync=110.0)
    assert (first.kind, first.subject, first.seconds_left) == ("volumes", "", 10.0)
    assert (second.kind, second.subject, second.seconds_left) == ("retry", "app", 10.0)


def test_probes_that_fail_or_have_not_succeeded_are_waited_for() -> None:
    failing = probe(last=ProbeResult.FAILURE, run=5, message="HTTP probe failed with statuscode: 500", at=NOW - 1)
    (wait,) = waits(probes=(failing,))
    assert wait.reason == "readiness probe failed (failureThreshold 3)"
    assert (wait.message, wait.times) == ("HTTP probe failed with statuscode: 500", 5)
    assert (wait.last_at, wait.since) == (NOW - 1, None), "the time of an answer is not that of the first failure"
    assert waits(probes=(probe(),))[0].reason == "readiness probe has not run yet"
    assert waits(probes=(probe(last=ProbeResult.SUCCESS),))[0].reason.endswith("has not succeeded often enough yet")
    assert waits(probes=(probe(error="no address"),))[0].message == "no address"


def test_probes_that_succeed_are_not_waited_for() -> None:
    fine = probe(conclusion=ProbeResult.SUCCESS, last=ProbeResult.SUCCESS)
    live = probe(probe_type=ProbeType.LIVENESS, conclusion=ProbeResult.SUCCESS)
    assert waits(probes=(fine, live)) == ()


def test_steps_in_progress_are_named_with_the_image_that_is_pulled() -> None:
    steps = (
        StepView(step="sandbox", start_s=0.0, duration_s=1.0),
        StepView(step="pull", container="app", start_s=2.0, duration_s=3.0, running=True),
    )
    timeline = TimelineView(pod="ns/web", uid="u", started_at=NOW - 5, steps=steps, total_s=5.0)
    (wait,) = waits(timeline=timeline)
    assert (wait.kind, wait.subject, wait.since) == ("pull", "app", NOW - 3)
    assert wait.message == pod().spec.containers[0].image


def test_back_off_that_is_over_is_not_waited_for_while_the_next_attempt_runs() -> None:
    failure = Failure(SyncAction.START_CONTAINER, "app", "ImagePullBackOff", "back-off", True, retry_at=90.0)
    other = Failure(SyncAction.START_CONTAINER, "side", "ImagePullBackOff", "back-off", True, retry_at=90.0)
    steps = (StepView(step="pull", container="app", start_s=2.0, duration_s=3.0, running=True),)
    timeline = TimelineView(pod="ns/web", uid="u", started_at=NOW - 5, steps=steps, total_s=5.0)
    shown = waits(failures=(failure, other), timeline=timeline)
    assert [(wait.kind, wait.subject) for wait in shown] == [("backOff", "side"), ("pull", "app")]


def test_volumes_that_are_retried_are_named_once() -> None:
    volumes = Failure(SyncAction.PREPARE, "web", "FailedMount", "not found")
    steps = (StepView(step="volumes", start_s=0.0, duration_s=1.0, running=True),)
    timeline = TimelineView(pod="ns/web", uid="u", started_at=NOW, steps=steps, total_s=1.0)
    assert [wait.reason for wait in waits(failures=(volumes,), timeline=timeline)] == ["FailedMount"]
    assert [wait.reason for wait in waits(timeline=timeline)] == ["in progress"]


def test_journal_is_shown_with_the_last_admission_and_sync() -> None:
    keep = Decision(Topic.CONTAINER, "app", "keep", "it runs as specified", idle=True)
    journal = PodJournal((STARTED, ADMITTED), NOW - 2, (keep,))
    view = explain(given(journal=journal, worker="sync", next_sync=160.0))
    assert view.admission is not None
    assert (view.admission.reason, view.admission.at) == ("no rule rejects it", NOW - 60)
    assert [(d.reason, d.count, d.at, d.first_at) for d in view.decisions] == [
        ("exited with code 1", 4, NOW - 5, NOW - 50),
        ("no rule rejects it", 1, NOW - 60, NOW - 60),
    ]
    assert view.last_sync is not None
    assert (view.last_sync.at, view.last_sync.next_in) == (NOW - 2, 60.0)
    assert [d.action for d in view.last_sync.decisions] == ["keep"]
    assert (view.worker, view.name) == ("sync", "web")
    assert explain(given()).last_sync is None
