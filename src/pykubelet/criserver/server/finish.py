"""Calls that change something go on to their end when their caller vanishes: nothing is left half done for a retry.

A kubelet that was killed in the middle of StartContainer finds the container running when it comes back, and does not
start another. Exec is not among these calls: a command that nobody waits for is ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")


def finishing(
    tasks: asyncio.TaskGroup, function: Callable[[_Request], Awaitable[_Reply]]
) -> Callable[[_Request], Awaitable[_Reply]]:
    """The same call, run in a task of its own. Only the end of the server, which ends ``tasks``, cuts it."""

    async def caught(request: _Request) -> _Reply | Exception:
        # A task group would end the whole server over one failed call.
        try:
            return await function(request)
        except Exception as error:
            return error

    async def call(request: _Request) -> _Reply:
        task = tasks.create_task(caught(request), name=f"call-{function.__name__}")
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call
