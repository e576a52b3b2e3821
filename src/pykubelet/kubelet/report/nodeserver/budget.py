"""How often the API server is asked about tokens that it has not confirmed before.

Anyone who reaches the port can make up tokens, and each is a request of this node to the API server: without a limit
they would use up the requests that the node may send, those for leases and statuses too.
"""

from collections import OrderedDict
from typing import Final

from pykubelet.apiclient import RateLimit
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

PER_SOURCE: Final = (5.0, 20)
"""Reviews a second, and at once, for the tokens of one source."""
IN_ALL: Final = (20.0, 100)
_SOURCES: Final = 1024
_CONFIRMED: Final = 1024
_RETRY: Final[Seconds] = 1.0


class Overloaded(Transient):
    """Too many unknown tokens: the client has to retry later (503 with Retry-After)."""


class ReviewBudget:
    """Tokens are given as their keys. Those that the API server confirmed last time are asked about without limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_all = RateLimit(*IN_ALL, clock)
        self._sources: OrderedDict[str, RateLimit] = OrderedDict()
        self._confirmed: OrderedDict[bytes, None] = OrderedDict()

    def spend(self, source: str, token: bytes) -> None:
        """Account for a review of a token that a source has shown. Overloaded: it has to wait."""
        if token in self._confirmed:
            return
        limit = self._sources.pop(source, None) or RateLimit(*PER_SOURCE, self._clock)
        self._sources[source] = limit
        while len(self._sources) > _SOURCES:
            self._sources.popitem(last=False)
        if not limit.try_take():
            raise Overloaded(f"too many unknown tokens from {source}; try again later", retry_after=_RETRY)
        if not self._in_all.try_take():
            raise Overloaded("too many unknown tokens; try again later", retry_after=_RETRY)

    def learn(self, token: bytes, *, confirmed: bool) -> None:
        """Remember what the API server said about a token."""
        self._confirmed.pop(token, None)
        if confirmed:
            self._confirmed[token] = None
            while len(self._confirmed) > _CONFIRMED:
                self._confirmed.popitem(last=False)
