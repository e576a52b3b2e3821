"""Runs blocking work in threads such that a job which hangs holds up nobody but its own pod.

A thread in a system call on a dead file server cannot be stopped. So each job has a thread of its own, a daemon
so that the agent can end; it counts against the bound on jobs only while it is young; and the next job under
the same key waits for it.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_YOUNG: Final[Seconds] = 1.0


class Blocking:
    """Jobs by key, one at a time for each, at most `parallel` young ones in all."""

    def __init__(self, parallel: int, deadline: Seconds) -> None:
        self._slots = asyncio.Semaphore(parallel)
        self._deadline = deadline
        self._running: dict[str, asyncio.Future[object]] = {}

    async def run(self, key: str, job: Callable[[], _T]) -> _T:
        """The job's result or error. Transient when it, or the one before it, has not ended by the deadline.

        A job that was given up goes on in its thread; its outcome is lost.
        """
        try:
            async with asyncio.timeout(self._deadline):
                while (earlier := self._running.get(key)) is not None:
                    await asyncio.wait([earlier])
                await self._slots.acquire()
                result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
                self._start(key, job, result)
                return await asyncio.shield(result)
        except TimeoutError as error:
            raise Transient(
                f"it did not end within {self._deadline:g} s; a file system or device may not answer"
            ) from error

    def _start(self, key: str, job: Callable[[], _T], result: "asyncio.Future[_T]") -> None:
        """Start the thread; the caller holds a slot, which is given back when the job ends or is no more young."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[object] = loop.create_future()
        slot = _Slot(self._slots)

        def finish(settle: Callable[[], None]) -> None:
            slot.free()
            del self._running[key]
            ended.set_result(None)
            if not result.done():
                settle()

        def work() -> None:
            settle: Callable[[], None]
            try:
                settle = partial(result.set_result, job())
            except Exception as error:  # goes to whoever awaits the job, whatever it is
                settle = partial(result.set_exception, error)
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(finish, settle)

        try:
            threading.Thread(target=work, name=f"volumes-{key}", daemon=True).start()
        except RuntimeError as error:
            slot.free()
            raise Transient(f"cannot start a thread: {error}") from error
        self._running[key] = ended
        slot.free_later(loop)


class _Slot:
    """One place among the young jobs, given back once."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots
        self._timer: asyncio.TimerHandle | None = None

    def free_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_YOUNG, self.free)

    def free(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._slots is not None:
            self._slots.release()
            self._slots = None
