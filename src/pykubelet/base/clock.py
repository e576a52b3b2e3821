"""The clock as a dependency: code takes a `Clock`, tests pass `testing.clock.VirtualClock`."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from pykubelet.base.units import Seconds


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


class SystemClock:
    """The `Clock` of the machine."""

    def now(self) -> Seconds:
        return time.time()

    def monotonic(self) -> Seconds:
        return time.monotonic()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(max(0.0, seconds))


def utc(ts: Seconds) -> datetime:
    """The aware UTC datetime of a Unix time in seconds."""
    return datetime.fromtimestamp(ts, UTC)
