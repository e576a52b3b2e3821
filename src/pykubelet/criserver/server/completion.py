"""Calls that change something go on to their end when their caller vanishes: nothing is left half done for a retry.

A kubelet that was killed in the middle of StartContainer finds the container running when it comes back, and does not
start another. A retry of the same request joins the call that is under way, so that retries of one that hangs do not
pile up. Exec is not among these calls: a command that no client waits for is ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from pykubelet.criserver.tasks import begin

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply")


def run_to_completion(
    tasks: asyncio.TaskGroup, function: Callable[[_Request], Awaitable[_Reply]]
) -> Callable[[_Request], Awaitable[_Reply]]:
    """The same call, run in a task of its own. Only the end of the server, which ends ``tasks``, cuts it."""
    pending: dict[bytes, asyncio.Task[_Reply | Exception]] = {}

    async def call(request: _Request) -> _Reply:
        content = request.SerializeToString(deterministic=True)
        task = pending.get(content)
        if task is None:
            task = begin(tasks, lambda: outcome_of(lambda: function(request)), f"call-{function.__name__}")
            pending[content] = task
            task.add_done_callback(lambda _: pending.pop(content))
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


async def outcome_of(work: Callable[[], Awaitable[_Reply]]) -> _Reply | Exception:
    """Its result, or its error: a task group would end the whole server over one failed call."""
    try:
        return await work()
    except Exception as error:
        return error
