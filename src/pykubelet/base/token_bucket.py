"""A token bucket: the arithmetic of rate limits. Pure; times are arguments, in seconds of one clock."""

from pykubelet.base.units import Seconds


class TokenBucket:
    """Allows a burst of ``burst`` (at least 1), then ``rate`` per second; a rate of 0 or less means no limit.

    It starts full. A time before an earlier one adds no tokens.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, *, now: Seconds) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        """Free tokens; below zero, the number of those that callers wait for."""
        self._at = now

    def reserve(self, now: Seconds, count: int = 1) -> Seconds:
        """Take tokens, even those of the future; return the seconds after which all are there."""
        if self._rate <= 0:
            return 0.0
        self._fill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._rate)

    def try_take(self, now: Seconds) -> bool:
        """Take a token if one is there; return whether it was."""
        if self._rate <= 0:
            return True
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def change(self, rate: float, burst: int, now: Seconds) -> None:
        """Use these limits from now on; free tokens beyond the new burst are lost, a larger burst fills by and by."""
        self._fill(now)
        self._rate = rate
        self._burst = float(max(1, burst))
        self._tokens = min(self._tokens, self._burst)

    def _fill(self, now: Seconds) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
