"""Creations in progress: a client whose deadline has passed retries the request, and joins the first call.

A creation continues when its client has disconnected, unlike the jobs of ``base.concurrency.single_flight``, which
belong to their callers. When it has finished, the managers recognize a retry by name and request, and return
the existing object.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from pykubelet.base.concurrency.answer import answer_of
from pykubelet.base.errors import Conflict
from pykubelet.criserver.background_tasks import begin
from pykubelet.criserver.server.completion import outcome_of

T = TypeVar("T")


class Creations(Generic[T]):
    """The creations in progress, by name."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._pending: dict[str, tuple[bytes, asyncio.Task[T | Exception]]] = {}

    async def run(self, name: str, content: bytes, create: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of ``create``, which runs at most once at a time for a name.

        Conflict: a request for this name with different content is in progress.
        """
        known = self._pending.get(name)
        if known is not None and known[0] != content:
            raise Conflict(f"{name!r} is reserved for a request that is in progress")
        if known is None:
            task = begin(self._tasks, lambda: outcome_of(create), f"create-{name[:40]}")
            known = self._pending[name] = (content, task)
            task.add_done_callback(lambda _: self._pending.pop(name))
        outcome = await answer_of(known[1])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
