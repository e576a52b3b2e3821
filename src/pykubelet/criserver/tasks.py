"""Tasks of the server's own, beside the calls of its clients."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pykubelet.base.errors import Transient

_T = TypeVar("_T")


def begin(tasks: asyncio.TaskGroup, work: Callable[[], Coroutine[Any, Any, _T]], name: str) -> "asyncio.Task[_T]":
    """Run it as a task of the server. Transient: the server is being stopped and begins nothing any more."""
    running = work()
    try:
        return tasks.create_task(running, name=name)
    except RuntimeError as error:
        running.close()
        raise Transient("the server is being stopped; the next one will answer") from error
