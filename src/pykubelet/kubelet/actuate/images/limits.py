"""Limits of image pulls: token bucket, and single-flight for concurrent pulls of the same image.

Only the image manager uses them; they are independent of images.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError

_T = TypeVar("_T")


class TokenBucket:
    """Rate limit: a burst of `burst`, then `rate` per second; a rate of 0 means no limit.

    A caller above the rate waits (the Go kubelet fails the pull instead, and backs off for 10 s).
    """

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._clock = clock
        self._tokens = float(self._burst)
        """Free tokens; below zero, the number of waiting callers."""
        self._filled_at = clock.monotonic()

    async def take(self) -> None:
        """Wait for a token."""
        if self._rate <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate) - 1
        self._filled_at = now
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate)


class _Flight(Generic[_T]):
    __slots__ = ("error", "landed", "results")

    def __init__(self) -> None:
        self.landed = asyncio.Event()
        self.results: list[_T] = []
        """The result; empty while the job runs, and if it was cancelled."""
        self.error: PykubeletError | None = None


class Shared(Generic[_T]):
    """Single-flight: one run of a job for all concurrent callers with the same key.

    The first caller runs the job. If it is cancelled, a waiting caller takes over, so that the removal of one pod does
    not fail another.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[_T]] = {}

    async def run(self, key: Hashable, job: Callable[[], Awaitable[_T]]) -> _T:
        """Run the job, or wait for the run in progress; all callers get its result or error."""
        while (flight := self._flights.get(key)) is not None:
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.results:
                return flight.results[0]
        flight = self._flights[key] = _Flight()
        try:
            result = await job()
            flight.results.append(result)
        except PykubeletError as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            flight.landed.set()
        return result
