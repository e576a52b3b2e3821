"""Answers of the API server, kept for a time: bounded, and asked for once however many wait for the same one."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Waiting:
    """Those who wait for one answer; the first of them asks."""

    lock: asyncio.Lock
    users: int = 0
    error: Exception | None = None
    """Of the one who asked: the others need not ask again."""


class TtlCache(Generic[K, V]):
    """``ttl`` gives the seconds that an answer is worth; 0: it is not kept. Errors are not kept either.

    ``size`` answers are kept that are true in Python's sense, and as many that are not: made-up questions, which have
    answers of the second kind, cannot push out answers of the first.
    """

    def __init__(self, clock: Clock, ttl: Callable[[V], Seconds], size: int = 4096) -> None:
        self._clock = clock
        self._ttl = ttl
        self._size = size
        self._known: dict[bool, OrderedDict[K, tuple[Seconds, V]]] = {True: OrderedDict(), False: OrderedDict()}
        self._waiting: dict[K, _Waiting] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The answer that is known, else a new one. Raises what ``ask`` raises, to all who wait for it."""
        found = self._find(key)
        if found is not None:
            return found[0]
        waiting = self._waiting.setdefault(key, _Waiting(asyncio.Lock()))
        waiting.users += 1
        try:
            async with waiting.lock:
                found = self._find(key)
                if found is not None:
                    return found[0]
                if waiting.error is not None:
                    raise waiting.error
                try:
                    value = await ask()
                except Exception as error:
                    waiting.error = error
                    raise
                self._keep(key, value)
                return value
        finally:
            waiting.users -= 1
            if not waiting.users:
                del self._waiting[key]

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
