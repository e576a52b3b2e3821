"""Client-side rate limit (``kubeAPIQPS``, ``kubeAPIBurst``), so that one node cannot flood the API server."""

from pykubelet.base.clock import Clock


class RateLimit:
    """A token bucket; requests wait in order of arrival. ``qps`` 0 or less: no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(max(1, burst))
        self._clock = clock
        self._tokens = self._burst
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Wait until a request may be sent."""
        if self._qps <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        # The token is taken at once, even below zero, so that later callers queue up behind this one.
        self._tokens -= 1.0
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take a token if one is available now; return whether it was."""
        if self._qps <= 0:
            return True
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
