"""The next request in the delivery of a status."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Invalid, Permanent, Transient
from pykubelet.kubelet.report.status.plan.delivery import HOLD_SECONDS
from pykubelet.kubelet.report.status.plan.next_request import (
    CORRECT_AGAIN_SECONDS,
    MAX_HOLD_SECONDS,
    MAX_RETRY_SECONDS,
    DeliveryState,
    NextRequest,
    Request,
    StatusHold,
    delivered,
    hold,
    is_concurrent_change,
    is_overwritten,
    next_request,
    retry_seconds,
    update,
    version_number,
)
from pykubelet.kubelet.report.status.status_types import StatusEntry
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import pod, with_meta

NOW = 1000.0
WAITING = core.ContainerStatus(
    name="app",
    ready=False,
    restart_count=0,
    state=core.ContainerState(waiting=core.ContainerStateWaiting(reason="ContainerCreating")),
)
PROGRESS = core.PodStatus(phase="Pending", container_statuses=(WAITING,))
RUNNING = core.PodStatus(phase="Running")
THERE = with_meta(pod(static=False), resource_version="7")
DELETED = with_meta(THERE, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
UID = THERE.metadata.uid


def entry(status: core.PodStatus, *, finished: bool = False, static: bool = False) -> StatusEntry:
    return StatusEntry(pod(static=static), status, status, 1, finished=finished)


def showing(status: core.PodStatus, version: str = "8") -> core.Pod:
    return replace(with_meta(THERE, resource_version=version), status=status)


def after(status: core.PodStatus) -> DeliveryState:
    """The state once the status was delivered with resource version 7."""
    return delivered(DeliveryState(), status, UID, showing(status, "7"))


def test_the_published_status_is_delivered() -> None:
    ended = core.PodStatus(phase="Failed")
    withheld = replace(entry(ended), published=RUNNING)
    assert next_request(after(RUNNING), withheld, THERE, NOW).request is Request.NONE
    assert next_request(after(RUNNING), entry(ended), THERE, NOW).request is Request.PATCH


def test_progress_is_held_back_from_its_first_change() -> None:
    assert hold(DeliveryState(), entry(PROGRESS), THERE, NOW) == StatusHold(HOLD_SECONDS, NOW)
    state = DeliveryState(held_since=NOW - 0.1)
    held = hold(state, entry(PROGRESS), THERE, NOW)
    assert held.seconds == pytest.approx(HOLD_SECONDS - 0.1)
    assert held.since == NOW - 0.1


def test_progress_that_was_held_back_is_sent_at_a_limited_rate_but_not_for_ever() -> None:
    since = NOW - HOLD_SECONDS
    assert hold(DeliveryState(held_since=since), entry(PROGRESS), THERE, NOW) == StatusHold(
        HOLD_SECONDS, since, limited=True
    )
    since = NOW - MAX_HOLD_SECONDS
    assert hold(DeliveryState(held_since=since), entry(PROGRESS), THERE, NOW) == StatusHold(0.0, since)


def test_outcome_and_final_status_are_sent_at_once() -> None:
    state = DeliveryState(held_since=NOW - 0.1)
    assert hold(state, entry(RUNNING), THERE, NOW) == StatusHold(0.0, NOW - 0.1)
    assert hold(state, entry(PROGRESS, finished=True), THERE, NOW).seconds == 0.0


def test_status_that_is_known_ends_the_hold() -> None:
    assert hold(DeliveryState(held_since=NOW), entry(RUNNING), showing(RUNNING), NOW) == StatusHold(0.0, None)
    # What was sent to this object counts more than what the last watch event showed.
    assert hold(after(PROGRESS), entry(PROGRESS), showing(RUNNING), NOW) == StatusHold(0.0, None)


def test_new_status_is_patched_and_one_that_is_there_is_adopted() -> None:
    assert next_request(DeliveryState(), entry(RUNNING), THERE, NOW) == NextRequest(Request.PATCH, DeliveryState())
    assert next_request(DeliveryState(), entry(RUNNING), showing(RUNNING), NOW).request is Request.ADOPT
    assert update(after(PROGRESS), RUNNING, showing(RUNNING)) is Request.PATCH, "the object may be an old one"


def test_status_of_a_replaced_object_is_sent_again() -> None:
    other = with_meta(THERE, uid="other")
    assert next_request(after(RUNNING), entry(RUNNING), THERE, NOW).request is Request.NONE
    assert next_request(after(RUNNING), entry(RUNNING), other, NOW).request is Request.PATCH


def test_overwritten_status_is_sent_again_but_not_too_often() -> None:
    state, changed = after(RUNNING), showing(core.PodStatus(phase="Failed"))
    assert is_overwritten(state, changed, NOW)
    found = next_request(state, entry(RUNNING), changed, NOW)
    assert found == NextRequest(Request.PATCH, replace(state, corrected_at=NOW, sent=None), overwritten=True)
    corrected = replace(state, corrected_at=NOW)
    assert not is_overwritten(corrected, changed, NOW + CORRECT_AGAIN_SECONDS - 1)
    assert is_overwritten(corrected, changed, NOW + CORRECT_AGAIN_SECONDS)


@pytest.mark.parametrize(
    "there",
    [showing(core.PodStatus(phase="Failed"), "7"), showing(RUNNING), with_meta(showing(PROGRESS), uid="other")],
    ids=["older object", "same status", "other object"],
)
def test_status_is_not_overwritten(there: core.Pod) -> None:
    assert not is_overwritten(after(RUNNING), there, NOW)
    assert not is_overwritten(DeliveryState(target=UID), showing(PROGRESS), NOW), "nothing was accepted yet"


@pytest.mark.parametrize(
    ("finished", "static", "there", "expected"),
    [
        (True, False, DELETED, Request.DELETE),
        (False, False, DELETED, Request.NONE),
        (True, True, DELETED, Request.NONE),
        (True, False, THERE, Request.NONE),
    ],
)
def test_deletion_of_an_ended_pod_is_completed(
    finished: bool, static: bool, there: core.Pod, expected: Request
) -> None:
    ended = entry(RUNNING, finished=finished, static=static)
    assert next_request(after(RUNNING), ended, there, NOW).request is expected


def test_delivered_state_has_what_the_api_server_accepted() -> None:
    kept = core.PodStatus(phase="Running", message="shortened")
    state = delivered(DeliveryState(corrected_at=5.0), RUNNING, UID, showing(kept, "12"))
    assert (state.target, state.sent, state.version, state.corrected_at) == (UID, RUNNING, 12, 5.0)
    assert state.accepted == kept


def test_retry_delay_follows_the_error() -> None:
    assert retry_seconds(Transient("busy"), 0.4) == 0.4
    assert retry_seconds(Transient("busy", retry_after=3.0), 0.4) == 3.0
    assert retry_seconds(Transient("busy", retry_after=0.1), 0.4) == 0.4
    assert retry_seconds(Permanent("forbidden"), 0.4) == MAX_RETRY_SECONDS
    assert retry_seconds(Invalid("bad field"), 0.4) == MAX_RETRY_SECONDS


def test_conflict_of_versions_is_distinguished_from_one_of_uids() -> None:
    text = 'Operation cannot be fulfilled on pods "web": the object has been modified; please apply your changes'
    assert is_concurrent_change(Conflict(text))
    assert not is_concurrent_change(Conflict("Precondition failed: UID in precondition: a, UID in object meta: b"))


def test_resource_version_that_is_no_number_counts_as_the_oldest() -> None:
    assert (version_number("12"), version_number(""), version_number("x1")) == (12, 0, 0)
