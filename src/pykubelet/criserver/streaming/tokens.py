"""One-time tokens that stand for a request. Whoever has seen a URL later cannot use it again."""

import secrets
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds

T = TypeVar("T")

LIFETIME: Seconds = 60.0
_MOST = 1000


class Tokens(Generic[T]):
    """Requests that wait for their connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[Seconds, T]] = {}

    def issue(self, value: T) -> str:
        """A token for a request. Transient when too many wait."""
        now = self._clock.monotonic()
        # In the order of issue, so the oldest come first.
        while self._waiting and next(iter(self._waiting.values()))[0] <= now:
            del self._waiting[next(iter(self._waiting))]
        if len(self._waiting) >= _MOST:
            raise Transient("too many streaming requests wait for their connection", retry_after=1.0)
        token = secrets.token_urlsafe(24)
        self._waiting[token] = (now + LIFETIME, value)
        return token

    def redeem(self, token: str) -> T:
        """The request, once. NotFound: unknown, used or too old."""
        expires, value = self._waiting.pop(token, (0.0, None))
        if value is None or expires <= self._clock.monotonic():
            raise NotFound("this URL is unknown, was used already, or has expired")
        return value
