"""Tasks that belong to the server rather than to a client's call."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from pykubelet.base.errors import Transient

_T = TypeVar("_T")


def begin(
    tasks: asyncio.TaskGroup, work: Callable[[], Coroutine[Any, Any, _T]], name: str, context: Context | None = None
) -> "asyncio.Task[_T]":
    """Run ``work`` as a task of the server. Transient: the server is being stopped and starts no more tasks.

    It belongs to the trace of the call that begins it, unless it has a ``context`` of its own.
    """
    running = work()
    try:
        return tasks.create_task(running, name=name, context=context)
    except RuntimeError as error:
        running.close()
        raise Transient("the server is being stopped; try again when it has been restarted") from error
