"""Containers that have ended between two statuses of a pod. Pure."""

from collections.abc import Iterator
from datetime import datetime

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.models.core_v1 import ContainerStatus, PodStatus


def new_ends(before: PodStatus | None, after: PodStatus) -> list[ContainerEnd]:
    """Return the ends that ``after`` shows and ``before`` does not, the earliest first.

    Without ``before``, as after a restart of the agent, these are all that the runtime still remembers.
    """
    known = {end.key for end in _ends(before)} if before is not None else frozenset()
    found = {end.key: end for end in _ends(after) if end.key not in known}
    return sorted(found.values(), key=lambda end: end.finished_at)


def _ends(status: PodStatus) -> Iterator[ContainerEnd]:
    for each in (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses):
        yield from _ends_of(each)


def _ends_of(status: ContainerStatus) -> Iterator[ContainerEnd]:
    for state in (status.last_state, status.state):
        ended = state.terminated if state is not None else None
        if ended is not None:
            yield ContainerEnd(
                container=status.name,
                container_id=ended.container_id,
                exit_code=ended.exit_code,
                reason=ended.reason,
                started_at=_seconds(ended.started_at),
                finished_at=_seconds(ended.finished_at),
            )


def _seconds(moment: datetime | None) -> Seconds:
    return moment.timestamp() if moment is not None else 0.0
