"""The scope of one server, which all its components share: its task group, clock, events and repairs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.supervise import supervise
from pykubelet.criserver.background_tasks import begin
from pykubelet.criserver.event_hub import EventHub
from pykubelet.criserver.repairs import Repairs

_T = TypeVar("_T")


class ServerScope(Struct, frozen=True, kw_only=True):
    """The task group, clock, events and repairs of a server."""

    tasks: asyncio.TaskGroup
    """Tasks that belong to the server rather than to a client's call; they end with the server."""
    clock: Clock
    events: EventHub
    repairs: Repairs

    @classmethod
    def of(cls, tasks: asyncio.TaskGroup, clock: Clock) -> "ServerScope":
        """The scope of a starting server, without subscribers and repairs."""
        return cls(tasks=tasks, clock=clock, events=EventHub(), repairs=Repairs(tasks, clock))

    def begin(self, work: Callable[[], Coroutine[Any, Any, _T]], name: str) -> "asyncio.Task[_T]":
        """Run ``work`` as a task of the server. Transient: the server is being stopped and starts no more tasks."""
        return begin(self.tasks, work, name)

    def supervise(self, loop: str, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run ``work`` as a task that is restarted with growing delays when it raises. Errors as of ``begin``.

        ``loop`` is a literal, under which failures are counted. The task outlives the call that begins it, so it is no
        part of the call's trace.
        """
        begin(self.tasks, partial(supervise, loop, name, work, clock=self.clock), name, Context())

    def now(self) -> int:
        """The time in nanoseconds since the epoch, as in CRI."""
        return int(self.clock.now() * 1e9)
