"""Calls that change something run to completion when their client disconnects, so that retries find a final state.

A kubelet that was killed during StartContainer finds the container running after its restart, and does not start
another. A retry of the same request joins the call in progress, so that retries of a call that hangs do not pile up.
Exec is not among these calls: a command whose client has disconnected is killed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from pykubelet.base.concurrency.answer import answer_of
from pykubelet.criserver.background_tasks import begin

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply")


def run_to_completion(
    tasks: asyncio.TaskGroup, function: Callable[[_Request], Awaitable[_Reply]]
) -> Callable[[_Request], Awaitable[_Reply]]:
    """Wrap a call so that it runs in its own task. Only the end of the server, which ends ``tasks``, interrupts it."""
    pending: dict[bytes, asyncio.Task[_Reply | Exception]] = {}

    async def call(request: _Request) -> _Reply:
        content = request.SerializeToString(deterministic=True)
        task = pending.get(content)
        if task is None:
            task = begin(tasks, lambda: outcome_of(lambda: function(request)), f"call-{function.__name__}")
            pending[content] = task
            task.add_done_callback(lambda _: pending.pop(content))
        outcome = await answer_of(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


async def outcome_of(work: Callable[[], Awaitable[_Reply]]) -> _Reply | Exception:
    """Return the result or the error of ``work``; a raised error would end the task group, and so the server."""
    try:
        return await work()
    except Exception as error:
        return error
