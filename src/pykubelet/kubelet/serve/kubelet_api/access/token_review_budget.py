"""Rate limit of TokenReviews for tokens that the API server has not confirmed before.

Any client that reaches the port can make up tokens, and each costs a request from this node to the API server. Without
a limit they would use up the node's request budget, including that of leases and statuses.
"""

from collections import OrderedDict
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

PER_SOURCE: Final = (5.0, 20)
"""Reviews per second, and burst, for the tokens of one source address."""
TOTAL: Final = (20.0, 100)
"""Reviews per second, and burst, of all sources."""
_SOURCES: Final = 1024
_CONFIRMED: Final = 1024
_RETRY: Final[Seconds] = 1.0


class Overloaded(Transient):
    """Too many unknown tokens: the client has to retry later (503 with Retry-After)."""


class ReviewBudget:
    """Token buckets per source and in total, for tokens identified by their hash.

    Tokens that the API server confirmed last time are not limited.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._total = RateLimit(*TOTAL, clock=clock)
        self._sources: OrderedDict[str, RateLimit] = OrderedDict()
        self._confirmed: OrderedDict[bytes, None] = OrderedDict()

    def spend(self, source: str, token: bytes) -> None:
        """Account for a review of a token presented by a source. Overloaded: the limit is reached."""
        if token in self._confirmed:
            return
        limit = self._sources.pop(source, None) or RateLimit(*PER_SOURCE, clock=self._clock)
        self._sources[source] = limit
        while len(self._sources) > _SOURCES:
            self._sources.popitem(last=False)
        if not limit.try_take():
            raise Overloaded(f"too many unknown tokens from {source}; try again later", retry_after=_RETRY)
        if not self._total.try_take():
            raise Overloaded("too many unknown tokens; try again later", retry_after=_RETRY)

    def record(self, token: bytes, *, confirmed: bool) -> None:
        """Record whether the API server confirmed a token."""
        self._confirmed.pop(token, None)
        if confirmed:
            self._confirmed[token] = None
            while len(self._confirmed) > _CONFIRMED:
                self._confirmed.popitem(last=False)
