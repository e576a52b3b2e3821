"""Time that a status may be held back so that it is sent together with its outcome. Pure.

A pod that starts quickly is Running before anyone could act on its being Pending with another condition, and a deleted
pod that ends quickly is gone as soon. Each intermediate status would cost the API server a write and every watcher an
event, and would delay the status that people wait for. So statuses that only report progress of a start or an end are
held back for a moment. Everything else is sent at once: another phase, failures, restarts, readiness, resizes, statuses
of ephemeral containers, and all statuses of a pod that the agent itself ends.
"""

from collections.abc import Iterable
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan.conditions import OWNED, ConditionType
from pykubelet.kubelet.report.status.status_types import PENDING
from pykubelet.models.core_v1 import ContainerState, ContainerStatus, PodStatus

HOLD_SECONDS: Final[Seconds] = 0.3
"""Seconds from the first status that is held back."""

_PROGRESS: Final = frozenset(
    {
        ConditionType.SCHEDULED,
        ConditionType.READY_TO_START,
        ConditionType.INITIALIZED,
        ConditionType.CONTAINERS_READY,
        ConditionType.READY,
    }
)
_ON_THE_WAY: Final = frozenset({"ContainerCreating", "PodInitializing"})
_NO_STATE: Final = ContainerState()


def hold_seconds(known: PodStatus, new: PodStatus, *, deleted: bool) -> Seconds:
    """Return the seconds that a status may be held back; 0: send it at once.

    ``known`` is the API server's status, ``new`` the one to send; ``deleted``: the API server has marked the pod as
    deleted.
    """
    waits = _only_ends(known, new) if deleted else _only_starts(known, new)
    return HOLD_SECONDS if waits else 0.0


def _only_starts(known: PodStatus, new: PodStatus) -> bool:
    """Return whether the pod was and is about to start, without a failure."""
    return (
        known.phase in ("", PENDING)
        and new.phase == PENDING
        and _same_verdict(known, new)
        and _same_conditions(known, new, _PROGRESS)
        and all(_starts(status) for status in (*new.init_container_statuses, *new.container_statuses))
    )


def _starts(status: ContainerStatus) -> bool:
    state = status.state or _NO_STATE
    if status.restart_count:
        return False
    if state.waiting is not None:
        return state.waiting.reason in _ON_THE_WAY
    return state.terminated is None or state.terminated.exit_code == 0


def _only_ends(known: PodStatus, new: PodStatus) -> bool:
    """Return whether nothing of a pod that is being deleted has changed that anyone waits for.

    Its readiness is waited for: where all endpoints of a Service are being deleted, those that are ready get the
    traffic (KEP-1669).
    """
    return (
        known.phase == new.phase
        and _same_verdict(known, new)
        and _same_conditions(known, new, {ConditionType.READY_TO_START})
        and _states(known.init_container_statuses) == _states(new.init_container_statuses)
        and _states(known.container_statuses) == _states(new.container_statuses)
    )


def _same_verdict(known: PodStatus, new: PodStatus) -> bool:
    return (
        known.reason == new.reason
        and known.message == new.message
        and known.ephemeral_container_statuses == new.ephemeral_container_statuses
    )


def _same_conditions(known: PodStatus, new: PodStatus, but: Iterable[ConditionType]) -> bool:
    """Return whether the conditions that people and controllers act on are equal, except ``but`` and others' own."""
    matched = (OWNED | {ConditionType.DISRUPTION_TARGET}) - frozenset(but)

    def of(status: PodStatus) -> set[tuple[str, str, str, str]]:
        return {(c.type, c.status, c.reason, c.message) for c in status.conditions if c.type in matched}

    return of(known) == of(new)


def _states(statuses: Iterable[ContainerStatus]) -> list[tuple[str, str, int, ContainerState | None]]:
    return [(each.name, each.container_id, each.restart_count, each.state) for each in statuses]
