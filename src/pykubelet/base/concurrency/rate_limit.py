"""A rate limit whose callers wait, or are refused, by a clock."""

from pykubelet.base.clock import Clock
from pykubelet.base.token_bucket import TokenBucket


class RateLimit:
    """A burst of ``burst``, then ``rate`` per second; a rate of 0 or less means no limit. Callers pass in order."""

    def __init__(self, rate: float, burst: int, *, clock: Clock) -> None:
        self._clock = clock
        self._bucket = TokenBucket(rate, burst, now=clock.monotonic())

    def change(self, rate: float, burst: int) -> None:
        """Use these limits for later callers; those that wait keep their time."""
        self._bucket.change(rate, burst, self._clock.monotonic())

    async def take(self) -> None:
        """Wait for a token. It is reserved at once, so that later callers queue up behind this one."""
        delay = self._bucket.reserve(self._clock.monotonic())
        if delay > 0:
            await self._clock.sleep(delay)

    def try_take(self) -> bool:
        """Take a token if one is available now; return whether it was."""
        return self._bucket.try_take(self._clock.monotonic())
