"""The next step in the delivery of a pod's status: send it, hold it back, delete the pod, or nothing. Pure.

``status_patcher.py`` carries it out. The state is a value; each function returns the one to keep.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan.delivery import hold_seconds
from pykubelet.kubelet.report.status.plan.patch import agent_part
from pykubelet.kubelet.report.status.status_types import StatusEntry
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

MAX_RETRY_SECONDS: Final[Seconds] = 10.0
"""Longest delay between two attempts, and the delay after a status that the API server rejects as invalid."""
CORRECT_AGAIN_SECONDS: Final[Seconds] = 10.0
"""Minimum interval at which a status overwritten by others is sent again."""
MAX_HOLD_SECONDS: Final[Seconds] = 5.0
"""Longest time for which progress is held back, however many pods start or end at once."""
_TICK: Final[Seconds] = 0.001
"""Shorter waits are skipped."""
_MODIFIED: Final = "the object has been modified"
"""The API server's message for a conflicting concurrent change; any other conflict is one of uids."""


class DeliveryState(Struct, frozen=True, kw_only=True):
    """State of the delivery of one pod's status. Times are monotonic."""

    target: str = ""
    """Uid of the API object that the status was sent to."""
    sent: PodStatus | None = None
    accepted: PodStatus | None = None
    """The agent's part of the status as the API server returned it; it may drop unknown fields."""
    version: int = 0
    """Resource version of the returned object."""
    corrected_at: Seconds = float("-inf")
    deleted: bool = False
    held_since: Seconds | None = None
    """Time since which a change is held back."""


class Request(StrEnum):
    """The request to make for the API server's object."""

    NONE = "none"
    PATCH = "patch"
    """Send the status."""
    ADOPT = "adopt"
    """After a restart of the agent the API server has this status already: take it as sent."""
    DELETE = "delete"
    """Complete the deletion of a pod that has ended."""


class NextRequest(Struct, frozen=True):
    """The next request, and the state to keep."""

    request: Request
    state: DeliveryState
    overwritten: bool = False
    """Another client has overwritten the status; it is sent again."""


class StatusHold(Struct, frozen=True):
    """Time that a status is still to be held back."""

    seconds: Seconds
    """0: send it now."""
    since: Seconds | None
    """Time since which the change is held back, to be kept."""
    limited: bool = False
    """Send it now if the rate of progress reports allows, else hold it for ``seconds``."""


def hold(state: DeliveryState, entry: StatusEntry, pod: Pod, now: Seconds) -> StatusHold:
    """Return for how long the status is held back. ``pod`` is the API server's object, ``now`` monotonic."""
    known = state.sent if state.sent is not None and state.target == pod.metadata.uid else pod.status
    if known == entry.published:
        return StatusHold(0.0, None)
    deleted = pod.metadata.deletion_timestamp is not None
    allowed = 0.0 if entry.finished else hold_seconds(known, entry.published, deleted=deleted)
    if not allowed:
        return StatusHold(0.0, state.held_since)
    since = now if state.held_since is None else state.held_since
    waited = now - since
    if allowed - waited > _TICK:
        return StatusHold(allowed - waited, since)
    # When many pods start at once, only some report progress, so that every pod reports Running in time.
    return StatusHold(allowed, since, limited=True) if waited < MAX_HOLD_SECONDS else StatusHold(0.0, since)


def next_request(state: DeliveryState, entry: StatusEntry, pod: Pod, now: Seconds) -> NextRequest:
    """Return the request that brings the API server's object ``pod`` up to date."""
    overwritten = is_overwritten(state, pod, now)
    if overwritten:
        state = replace(state, corrected_at=now, sent=None)
    uid = pod.metadata.uid
    if state.target != uid or state.sent != entry.published:
        return NextRequest(update(state, entry.published, pod), state, overwritten)
    ended = entry.finished and not is_static(entry.pod) and pod.metadata.deletion_timestamp is not None
    return NextRequest(Request.DELETE if ended else Request.NONE, state, overwritten)


def update(state: DeliveryState, status: PodStatus, pod: Pod) -> Request:
    """Return how a status that is not delivered becomes so: PATCH, or ADOPT if the API server has it already."""
    same = state.target != pod.metadata.uid and agent_part(pod.status) == agent_part(status)
    return Request.ADOPT if same else Request.PATCH


def newest(state: DeliveryState, pod: Pod) -> PodStatus:
    """Return the newest known status of the API server's object: ``pod`` came by a watch, which may be behind."""
    answered = state.target == pod.metadata.uid and state.version > version_number(pod.metadata.resource_version)
    return state.accepted if answered and state.accepted is not None else pod.status


def is_overwritten(state: DeliveryState, pod: Pod, now: Seconds) -> bool:
    """Whether another client has changed the status since it was accepted, and it may be corrected again."""
    if state.accepted is None or state.target != pod.metadata.uid:
        return False
    if version_number(pod.metadata.resource_version) <= state.version or agent_part(pod.status) == state.accepted:
        return False
    return now - state.corrected_at >= CORRECT_AGAIN_SECONDS


def delivered(state: DeliveryState, status: PodStatus, uid: str, reply: Pod) -> DeliveryState:
    """Return the state once the API server's object ``uid`` has the status; ``reply`` is the object then."""
    return replace(
        state,
        target=uid,
        sent=status,
        accepted=agent_part(reply.status),
        version=version_number(reply.metadata.resource_version),
    )


def is_concurrent_change(error: PykubeletError) -> bool:
    """Whether a conflict is one with a concurrent change, after which the same request may succeed."""
    return _MODIFIED in str(error)


def retry_seconds(error: PykubeletError, back_off: Seconds) -> Seconds:
    """Return the delay before the next attempt; the API server may ask for a longer one than the back-off."""
    return max(back_off, error.retry_after or 0.0) if isinstance(error, Transient) else MAX_RETRY_SECONDS


def version_number(version: str) -> int:
    """Return a resource version as a number (they grow, KEP-5504); 0 for an invalid one."""
    return int(version) if version.isdecimal() else 0
