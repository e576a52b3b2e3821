"""Detached execs: commands that continue after their clients have disconnected."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

_log = logging.getLogger(__name__)

Outlive: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Waits for the end of a command, or kills it once the event is set, and cleans up after it."""


class DetachedExecs:
    """Watches detached execs, and kills the oldest if there are too many.

    Each costs the node a process outside of its pod's limits. Their tasks are never cancelled: a task that is cancelled
    before it has begun, or during its clean-up, would leave its command and its pipes behind.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._wanted: dict[asyncio.Task[None], asyncio.Event] = {}
        """Tasks with the events that end them, oldest first."""
        self._ending: set[asyncio.Task[None]] = set()

    def take(self, outlive: Outlive) -> None:
        """Watch one more detached exec; if there are too many, kill the oldest."""
        while len(self._wanted) >= self._most:
            self._end(next(iter(self._wanted)))
        unwanted = asyncio.Event()
        task = asyncio.ensure_future(outlive(unwanted))
        self._wanted[task] = unwanted
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Kill all detached execs, and return when their clean-up has ended."""
        for task in list(self._wanted):
            self._end(task)
        while self._ending:
            await asyncio.wait(self._ending)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._wanted.pop(task).set()
        self._ending.add(task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._wanted.pop(task, None)
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("cleanup of a detached exec failed", exc_info=error)
