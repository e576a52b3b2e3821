"""Creations under way: a client whose deadline passed asks for the same thing again, and joins the first call.

A creation goes on when its caller is gone. When it is over, the managers know by the name and the request who asks
again, and give what was made.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from pykubelet.base.errors import Conflict
from pykubelet.criserver.server.completion import outcome_of
from pykubelet.criserver.tasks import begin

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """By name; only what is under way is held."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._pending: dict[str, tuple[bytes, asyncio.Task[T | Exception]]] = {}

    async def run(self, name: str, content: bytes, create: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of ``create``, which runs at most once for a name at a time.

        Conflict when another request for this name, of other content, is under way.
        """
        known = self._pending.get(name)
        if known is not None and known[0] != content:
            raise Conflict(f"{name!r} is reserved for a request that is under way")
        if known is None:
            task = begin(self._tasks, lambda: outcome_of(create), f"create-{name[:40]}")
            known = self._pending[name] = (content, task)
            task.add_done_callback(lambda _: self._pending.pop(name))
        outcome = await asyncio.shield(known[1])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
