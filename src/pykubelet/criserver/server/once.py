"""Retried creations: a client whose deadline passed asks for the same thing again, and must get the first one.

A creation goes on when its caller is gone. A second request of the same content joins it, or takes its result if
nobody has received it yet.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from pykubelet.base.errors import Conflict

T = TypeVar("T")


class Once(Generic[T]):
    """Creations under way or not yet received, by name."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._pending: dict[str, tuple[bytes, asyncio.Task[T | Exception]]] = {}

    async def run(self, name: str, content: bytes, create: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of ``create``, called at most once for a name until its result was received.

        Conflict when another request for this name, of other content, is under way.
        """
        known = self._pending.get(name)
        if known is not None and known[0] != content and not known[1].done():
            raise Conflict(f"{name!r} is reserved for a request that is under way")
        if known is None or known[0] != content:
            task = self._tasks.create_task(_caught(create), name=f"create-{name[:40]}")
            known = self._pending[name] = (content, task)
            task.add_done_callback(lambda _: self._failed(name, task))
        outcome = await asyncio.shield(known[1])
        # Only now has the caller received it; a cancelled one has not, and its result waits for the retry.
        self._pending.pop(name, None)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def forget(self, result: T) -> None:
        """A result was removed by other means: nobody may be given it any more."""
        for name, (_, task) in list(self._pending.items()):
            if task.done() and not task.cancelled() and task.result() == result:
                del self._pending[name]

    def _failed(self, name: str, task: "asyncio.Task[T | Exception]") -> None:
        known = self._pending.get(name)
        if known is not None and known[1] is task and (task.cancelled() or isinstance(task.result(), Exception)):
            del self._pending[name]


async def _caught(create: Callable[[], Coroutine[Any, Any, T]]) -> T | Exception:
    # A task group would end the whole server over one failed creation.
    try:
        return await create()
    except Exception as error:
        return error
