"""A bounded cache of API server answers with expiry; concurrent requests for one key share one call."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.units import Seconds

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """A cache whose ``ttl`` returns the seconds to keep an answer; 0: it is not kept. Errors are never kept.

    Up to ``size`` truthy answers are kept, and as many falsy ones: answers to made-up questions are falsy, so they
    cannot evict truthy ones.
    """

    def __init__(self, *, clock: Clock, ttl: Callable[[V], Seconds], size: int = 4096) -> None:
        self._clock = clock
        self._ttl = ttl
        self._size = size
        self._known: dict[bool, OrderedDict[K, tuple[Seconds, V]]] = {True: OrderedDict(), False: OrderedDict()}
        self._calls: SingleFlight[K, V] = SingleFlight()

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the cached answer, or call ``ask``. What ``ask`` raises is raised to all waiting callers."""
        found = self._find(key)
        if found is not None:
            return found[0]

        async def ask_and_keep() -> V:
            value = await ask()
            self._keep(key, value)
            return value

        return await self._calls.run(key, ask_and_keep)

    def _find(self, key: K) -> tuple[V] | None:
        for answers in self._known.values():
            entry = answers.get(key)
            if entry is None:
                continue
            until, value = entry
            if self._clock.monotonic() < until:
                return (value,)
            del answers[key]
        return None

    def _keep(self, key: K, value: V) -> None:
        ttl = self._ttl(value)
        if ttl <= 0:
            return
        answers = self._known[bool(value)]
        answers[key] = (self._clock.monotonic() + ttl, value)
        answers.move_to_end(key)
        while len(answers) > self._size:
            answers.popitem(last=False)
