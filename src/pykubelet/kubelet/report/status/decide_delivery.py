"""How long news of a pod may wait for more of them on their way to the API server. Pure.

A pod that starts quickly is Running before anybody could act on its being Pending with another condition, and one that
is deleted is gone as soon: each status on the way would cost the API server a write and everybody who watches pods an
event, and would hold up the one that is waited for. So what only tells how far a start or an end has come waits a
moment for its outcome. All else goes at once: another phase, failures, restarts, readiness, resizes, what was said of
ephemeral containers, and all of a pod that the agent itself ends.
"""

from collections.abc import Iterable
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.compute_conditions import OWNED, Condition
from pykubelet.kubelet.report.status.types import PENDING
from pykubelet.models.core_v1 import ContainerState, ContainerStatus, PodStatus

PATIENCE: Final[Seconds] = 0.3
"""From the first of the news that wait."""

_PROGRESS: Final = frozenset(
    {
        Condition.SCHEDULED,
        Condition.READY_TO_START,
        Condition.INITIALIZED,
        Condition.CONTAINERS_READY,
        Condition.READY,
    }
)
_READINESS: Final = frozenset({Condition.CONTAINERS_READY, Condition.READY, Condition.READY_TO_START})
_ON_THE_WAY: Final = frozenset({"ContainerCreating", "PodInitializing"})
_NO_STATE: Final = ContainerState()


def patience(there: PodStatus, news: PodStatus, *, deleted: bool) -> Seconds:
    """Seconds that a status may wait; 0: it goes at once.

    ``there`` is what the API server has, ``deleted`` that it has marked the pod so.
    """
    waits = _only_ends(there, news) if deleted else _only_starts(there, news)
    return PATIENCE if waits else 0.0


def _only_starts(there: PodStatus, news: PodStatus) -> bool:
    """Whether the pod was and is about to start, and nothing stands in its way."""
    return (
        there.phase in ("", PENDING)
        and news.phase == PENDING
        and _same_verdict(there, news)
        and _same_conditions(there, news, _PROGRESS)
        and all(_starts(status) for status in (*news.init_container_statuses, *news.container_statuses))
    )


def _starts(status: ContainerStatus) -> bool:
    state = status.state or _NO_STATE
    if status.restart_count:
        return False
    if state.waiting is not None:
        return state.waiting.reason in _ON_THE_WAY
    return state.terminated is None or state.terminated.exit_code == 0


def _only_ends(there: PodStatus, news: PodStatus) -> bool:
    """Whether a pod that is being taken down has lost its readiness and nothing else.

    Nobody sends it new work for its being deleted; that it is not ready adds little.
    """
    return (
        there.phase == news.phase
        and _same_verdict(there, news)
        and _same_conditions(there, news, _READINESS)
        and _states(there.init_container_statuses) == _states(news.init_container_statuses)
        and _states(there.container_statuses) == _states(news.container_statuses)
    )


def _same_verdict(there: PodStatus, news: PodStatus) -> bool:
    return (
        there.reason == news.reason
        and there.message == news.message
        and there.ephemeral_container_statuses == news.ephemeral_container_statuses
    )


def _same_conditions(there: PodStatus, news: PodStatus, but: Iterable[Condition]) -> bool:
    """Whether the conditions that people and controllers act on are the same, leaving out ``but`` and others' own."""
    told = (OWNED | {Condition.DISRUPTION_TARGET}) - frozenset(but)

    def of(status: PodStatus) -> set[tuple[str, str, str, str]]:
        return {(c.type, c.status, c.reason, c.message) for c in status.conditions if c.type in told}

    return of(there) == of(news)


def _states(statuses: Iterable[ContainerStatus]) -> list[tuple[str, str, int, ContainerState | None]]:
    return [(each.name, each.container_id, each.restart_count, each.state) for each in statuses]
