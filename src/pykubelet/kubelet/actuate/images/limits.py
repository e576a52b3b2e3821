"""How many pulls at once, how many a second, and one pull for many who want the same.

Used by the image manager alone; nothing here knows about images.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError

_T = TypeVar("_T")


class TokenBucket:
    """At most `burst` at once and `rate` a second after that; a rate of 0 means no limit. Who comes too
    early waits its turn (the reference fails the pull instead, and backs off for 10 s)."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._clock = clock
        self._tokens = float(self._burst)
        """Less than zero: so many are waiting."""
        self._filled_at = clock.monotonic()

    async def take(self) -> None:
        """Return when it is the caller's turn."""
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
        """One result; none yet, or none at all if the job was given up."""
        self.error: PykubeletError | None = None


class Shared(Generic[_T]):
    """One run of a job for everybody who asks for it under the same key at the same time.

    The first caller does the work. When it is cancelled, one of those waiting takes over, so that the end of
    one pod does not fail another.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[_T]] = {}

    async def run(self, key: Hashable, job: Callable[[], Awaitable[_T]]) -> _T:
        """The job's result, or its error, which all callers get."""
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
