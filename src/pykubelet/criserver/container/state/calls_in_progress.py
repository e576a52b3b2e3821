"""Creations and starts of containers in progress: a stop or a removal waits for them, or cancels them.

A start must not continue after its container was stopped, nor a creation in a sandbox that is being removed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.units import Seconds

_END: Seconds = 30.0
"""Time for a cancelled call to undo its work."""


class CallsInProgress:
    """The creation or start of one container, while it is in progress."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    @property
    def busy(self) -> bool:
        """Whether a call is in progress."""
        return bool(self._calls)

    @contextmanager
    def call(self, what: str) -> Iterator[None]:
        """Mark the body as a call of the current task that ``settle`` may cancel.

        A cancelled call raises Permanent with the reason. ``what``: the call's description for the message.
        """
        call = _Call()
        self._calls.append(call)
        try:
            yield
        except asyncio.CancelledError as error:
            if call.taken_back():
                raise Permanent(f"{what} was cancelled: {call.why}") from error
            raise
        except BaseException:
            call.taken_back()
            raise
        finally:
            self._calls.remove(call)
            call.over.set()

    async def settle(self, patience: Seconds, why: str) -> None:
        """Wait until no call is in progress. After ``patience`` seconds they are cancelled, for the reason ``why``.

        Transient: a cancelled call does not end.
        """
        calls = tuple(self._calls)
        if not calls or await _are_over(calls, patience):
            return
        for call in calls:
            call.end(why)
        if not await _are_over(calls, _END):
            raise Transient(
                f"a call in progress did not end within {_END:g} s, though {why}: it hangs in the kernel; retry later"
            )


class _Call:
    """A part of a task that can be cancelled separately, as with ``asyncio.timeout``."""

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
        """Withdraw the cancellation; whether it was the only one, so that the task continues."""
        return bool(self.why) and self._task.uncancel() <= self._cancelling


async def _are_over(calls: "tuple[_Call, ...]", seconds: Seconds) -> bool:
    try:
        async with asyncio.timeout(seconds):
            for call in calls:
                await call.over.wait()
        return True
    except TimeoutError:
        return all(call.over.is_set() for call in calls)
