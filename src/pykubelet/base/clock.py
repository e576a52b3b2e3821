"""The clock as a dependency: code takes a `Clock`, tests pass `testing.clock.VirtualClock`."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from pykubelet.base.units import Seconds


class Timer(Protocol):
    """A call that a clock will make."""

    def cancel(self) -> object:
        """Do not make it. Without effect when it was made."""
        ...


class Clock(Protocol):
    """A source of time. `now` may jump (NTP, suspend), `monotonic` never goes back."""

    def now(self) -> Seconds:
        """Wall clock, in seconds since the Unix epoch."""
        ...

    def monotonic(self) -> Seconds:
        """Seconds from an arbitrary start; use it for every interval, back-off and deadline."""
        ...

    async def sleep(self, seconds: Seconds) -> None:
        """Wait for so many seconds; zero or less only yields to the other tasks once."""
        ...

    def call_later(self, seconds: Seconds, function: Callable[[], object]) -> Timer:
        """Call a function of the event loop after so many seconds, but not before this call has returned."""
        ...


class SystemClock:
    """The `Clock` of the machine."""

    def now(self) -> Seconds:
        return time.time()

    def monotonic(self) -> Seconds:
        return time.monotonic()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def call_later(self, seconds: Seconds, function: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, seconds), function)


def cpu_time() -> Seconds:
    """The CPU time that this process has used in all its threads."""
    return time.process_time()


def utc(ts: Seconds) -> datetime:
    """The aware UTC datetime of a Unix time in seconds."""
    return datetime.fromtimestamp(ts, UTC)
