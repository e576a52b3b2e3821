"""Reads per-pod records of an earlier agent at the start; a damaged record or a hung disk does not delay the others."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID

_T = TypeVar("_T")
_DEADLINE: Final[Seconds] = 5.0
"""Seconds per record: the agent has to serve pods soon after its start, even if a disk does not respond."""


async def read_records(guard: Guard, uids: Iterable[PodUID], read: Callable[[PodUID], _T | None]) -> dict[PodUID, _T]:
    """Call ``read``, which blocks, for each pod; return the records found. A pod whose ``read`` fails has none.

    The result is in the order of the uids, so that after each restart the same one of two pods with the same ids
    keeps them.
    """
    found: dict[PodUID, _T] = {}

    async def take(uid: PodUID) -> None:
        with guard.item(uid):
            record = await blocking.call(f"pod/{uid}", read, uid, deadline=_DEADLINE)
            if record is not None:
                found[uid] = record

    async with asyncio.TaskGroup() as group:
        for uid in uids:
            group.create_task(take(uid), name=f"read-record {uid}")
    return dict(sorted(found.items()))
