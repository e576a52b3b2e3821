"""One-time tokens that stand for a request: a URL that leaks later cannot be used again."""

import secrets
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import MIB, Bytes, Seconds

T = TypeVar("T")

LIFETIME: Seconds = 60.0
_MOST = 1000
_MOST_BYTES = 32 * MIB
"""Size limit of all waiting requests: a command may be as long as a CRI message."""


class Tokens(Generic[T]):
    """The requests that wait for their connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[Seconds, Bytes, T]] = {}
        self._size = 0

    def issue(self, value: T, size: Bytes) -> str:
        """Issue a token for a request of ``size`` bytes. Raises Transient if too many requests wait."""
        now = self._clock.monotonic()
        # They are in the order of issue, so expired ones come first.
        while self._waiting and next(iter(self._waiting.values()))[0] <= now:
            self._size -= self._waiting.pop(next(iter(self._waiting)))[1]
        if len(self._waiting) >= _MOST or self._size + size > _MOST_BYTES:
            raise Transient("too many streaming requests wait for their connection", retry_after=1.0)
        token = secrets.token_urlsafe(24)
        self._waiting[token] = (now + LIFETIME, size, value)
        self._size += size
        return token

    def redeem(self, token: str) -> T:
        """Return the request of a token and invalidate the token. NotFound: it is unknown, used or expired."""
        expires, size, value = self._waiting.pop(token, (0.0, 0, None))
        self._size -= size
        if value is None or expires <= self._clock.monotonic():
            raise NotFound("this URL is unknown, was used already, or has expired")
        return value
