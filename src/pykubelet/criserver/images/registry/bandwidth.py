"""The speed of downloads: one limit for the bytes that all pulls receive, and the least of each download."""

from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.token_bucket import TokenBucket
from pykubelet.base.units import KIB, Seconds
from pykubelet.criserver.images.image_types import RegistryUnavailable

_LEAST_BURST: Final = 64 * KIB
_BURST: Final[Seconds] = 0.1
"""For so long at the full rate, bytes may come at once after a pause."""
_WINDOW: Final[Seconds] = 60.0
SLOWEST: Final = 60 * KIB
"""Bytes that a blob's download must bring within the window; a slower one holds up all pulls of this blob from it."""


class PullBandwidth:
    """The limit. A download that has received bytes waits before it reads on, so that its server has to wait, too."""

    def __init__(self, rate: int, clock: Clock) -> None:
        """``rate``: bytes per second; 0: no limit."""
        self._clock = clock
        self._rate = rate
        self._bucket = self._new()

    def configure(self, rate: int) -> None:
        """Use another rate from now on, also for downloads that run."""
        if rate != self._rate:
            self._rate = rate
            self._bucket = self._new()

    async def take(self, count: int) -> Seconds:
        """Wait until the limit allows so many bytes, in the order of the calls; return how long it was."""
        delay = self._bucket.reserve(self._clock.monotonic(), count)
        if delay > 0:
            await self._clock.sleep(delay)
        return delay

    def _new(self) -> TokenBucket:
        return TokenBucket(self._rate, max(_LEAST_BURST, int(self._rate * _BURST)), now=self._clock.monotonic())


class DownloadPace:
    """The speed of one download."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._bytes = 0

    def check(self, count: int, what: str) -> None:
        """Note bytes that have arrived. Raises RegistryUnavailable if there were too few in the last window."""
        self._bytes += count
        if self._clock.monotonic() - self._began >= _WINDOW:
            if self._bytes < SLOWEST:
                raise RegistryUnavailable(f"{what}: only {self._bytes} bytes came within {_WINDOW:g} s")
            self._began, self._bytes = self._clock.monotonic(), 0

    def excuse(self, seconds: Seconds) -> None:
        """Leave out a time in which nothing was read."""
        self._began += seconds
