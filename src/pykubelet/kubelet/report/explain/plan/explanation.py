"""The reason why a pod is in its state, from the agent's own decisions. Pure.

What the pod waits for now comes from its worker's last failures (back-offs, volumes), from its probes and from the
steps of its start that are being taken; the rest is the journal.
"""

from collections.abc import Iterator

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.explain.journal_types import Entry, PodJournal
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.probes import ProbeReport, ProbeResult, ProbeType
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.kubelet.types.reports.explain_views import DecisionView, ExplainView, SyncView, WaitView
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.models.core_v1 import Pod

_CONCERN_POD = frozenset({SyncAction.PREPARE, SyncAction.CREATE_SANDBOX, SyncAction.KILL_POD, SyncAction.RESIZE})


class Situation(Struct, frozen=True, kw_only=True):
    """Everything that an explanation is made of."""

    pod: Pod
    """With its present status."""
    worker: str = ""
    """Phase of the pod's worker; empty: it has none."""
    failures: tuple[Failure, ...] = ()
    """Failures of the last sync."""
    next_sync: Seconds | None = None
    """Monotonic time."""
    probes: tuple[ProbeReport, ...] = ()
    timeline: TimelineView | None = None
    journal: PodJournal
    monotonic: Seconds
    """The present time, for the remaining time of back-offs."""


def explain(given: Situation) -> ExplainView:
    """Return the explanation."""
    pod, journal = given.pod, given.journal
    admission = next((each for each in journal.entries if each.decision.topic is Topic.ADMISSION), None)
    last_sync = None
    if journal.synced_at:
        next_in = max(0.0, given.next_sync - given.monotonic) if given.next_sync is not None else None
        at = journal.synced_at
        decided = tuple(_view(Entry(each, at, at)) for each in journal.last_sync)
        last_sync = SyncView(at=at, decisions=decided, next_in=next_in)
    return ExplainView(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        phase=pod.status.phase,
        reason=pod.status.reason,
        message=pod.status.message,
        worker=given.worker,
        admission=_view(admission) if admission is not None else None,
        waits=(*_failures(given), *_probes(given), *_steps(given)),
        last_sync=last_sync,
        decisions=tuple(_view(each) for each in journal.entries),
    )


def _view(entry: Entry) -> DecisionView:
    decision: Decision = entry.decision
    return DecisionView(
        at=entry.last_at,
        first_at=entry.first_at,
        count=entry.count,
        topic=str(decision.topic),
        subject=decision.subject,
        action=decision.action,
        reason=decision.reason,
        message=decision.message,
    )


def _failures(given: Situation) -> Iterator[WaitView]:
    steps = given.timeline.steps if given.timeline is not None else ()
    busy = {step.container for step in steps if step.running}
    for failure in given.failures:
        at = failure.retry_at
        if at is not None and at <= given.monotonic and failure.target in busy:
            continue  # the back-off is over, and the next attempt has begun
        kind = "backOff"
        if at is None:
            at = given.next_sync
            kind = "volumes" if failure.action is SyncAction.PREPARE else "retry"
        yield WaitView(
            kind=kind,
            subject="" if failure.action in _CONCERN_POD else failure.target,
            reason=failure.reason,
            message=failure.message,
            seconds_left=max(0.0, at - given.monotonic) if at is not None else None,
        )


def _probes(given: Situation) -> Iterator[WaitView]:
    """Yield probes that fail, and those whose first success the pod waits for."""
    for probe in given.probes:
        failing = probe.last is ProbeResult.FAILURE or bool(probe.error)
        pending = probe.probe_type is not ProbeType.LIVENESS and probe.conclusion is not ProbeResult.SUCCESS
        if not failing and not pending:
            continue
        kind = f"{probe.probe_type.lower()} probe"
        if probe.error:
            reason, message = f"{kind} could not be run", probe.error
        elif failing:
            reason, message = f"{kind} failed (failureThreshold {probe.failure_threshold})", probe.message
        elif probe.last is None:
            reason, message = f"{kind} has not run yet", ""
        else:
            reason, message = f"{kind} has not succeeded often enough yet", ""
        yield WaitView(
            kind="probe",
            subject=probe.container,
            reason=reason,
            message=message,
            times=probe.run if failing and not probe.error else 0,
            last_at=probe.at or None,
        )


def _steps(given: Situation) -> Iterator[WaitView]:
    if given.timeline is None:
        return
    images = {c.name: c.image for c in (*given.pod.spec.init_containers, *given.pod.spec.containers)}
    failed = any(failure.action is SyncAction.PREPARE for failure in given.failures)
    for step in given.timeline.steps:
        if step.running and not (failed and step.step == Step.VOLUMES):
            message = images.get(step.container, "") if step.step == Step.PULL else ""
            yield WaitView(
                kind=step.step,
                subject=step.container,
                reason="in progress",
                message=message,
                since=given.timeline.started_at + step.start_s,
            )
