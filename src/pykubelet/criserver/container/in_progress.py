"""Creations and starts of containers that are under way: a stop or a removal waits for them, or ends them.

A start must not go on after its container was stopped, nor a creation in a sandbox that is being removed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.units import Seconds

_END: Seconds = 30.0
"""How long a call that was ended may take to undo what it has done."""


class InProgress:
    """The creation or start of one container, while it is under way."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    @property
    def busy(self) -> bool:
        """Whether there is one."""
        return bool(self._calls)

    @contextmanager
    def call(self, what: str) -> Iterator[None]:
        """Everything in here is one such call of the current task.

        When it is ended, what is awaited in here is cancelled, and the caller gets Permanent with the reason.
        """
        call = _Call()
        self._calls.append(call)
        try:
            yield
        except asyncio.CancelledError as error:
            if call.taken_back():
                raise Permanent(f"{what} was ended: {call.why}") from error
            raise
        except BaseException:
            call.taken_back()
            raise
        finally:
            self._calls.remove(call)
            call.over.set()

    async def settle(self, patience: Seconds, why: str) -> None:
        """Wait until there is none. One that takes longer than ``patience`` seconds is ended, for the reason ``why``.

        Transient: it does not end.
        """
        calls = tuple(self._calls)
        if not calls or await _are_over(calls, patience):
            return
        for call in calls:
            call.end(why)
        if not await _are_over(calls, _END):
            raise Transient(
                f"a call has not ended within {_END:g} s, though {why}: it hangs in the kernel; try again later"
            )


class _Call:
    """A part of a task that can be cancelled on its own, as by ``asyncio.timeout``."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "calls are run by tasks"
        self._task = task
        self._cancelling = task.cancelling()
        self.over = asyncio.Event()
        self.why = ""

    def end(self, why: str) -> None:
        if not self.why and not self.over.is_set():
            self.why = why
            self._task.cancel()

    def taken_back(self) -> bool:
        """Whether the cancellation is ours alone: the task goes on."""
        return bool(self.why) and self._task.uncancel() <= self._cancelling


async def _are_over(calls: "tuple[_Call, ...]", seconds: Seconds) -> bool:
    try:
        async with asyncio.timeout(seconds):
            for call in calls:
                await call.over.wait()
        return True
    except TimeoutError:
        return all(call.over.is_set() for call in calls)
