"""Reads what an earlier agent noted of each pod, at the start: a record that is damaged or hangs delays no other."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from pykubelet.base import blocking
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID

_T = TypeVar("_T")
_DEADLINE: Final[Seconds] = 5.0
"""The agent serves pods within some seconds of its start, whatever their disk does."""


async def read_records(guard: Guard, uids: Iterable[PodUID], read: Callable[[PodUID], _T | None]) -> dict[PodUID, _T]:
    """What ``read``, which blocks, finds for each pod; without those that have nothing, or whose ``read`` fails.

    In the order of the uids, so that after each restart the same one of two pods with the same ids keeps them.
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
