"""From one who makes changes to many who watch, none of whom can make the maker wait or memory grow.

Each subscriber has a queue with one place per key: a change of something whose former change has not been fetched
yet takes its place. So a slow watcher sees fewer steps but always the newest state, and never holds more than one
value per key.
"""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Subscription(Generic[K, V]):
    """One watcher's queue."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[K, V] = {}
        self._wake = asyncio.Event()

    def put(self, key: K, value: V) -> None:
        """Queue a value; called by the broadcast."""
        self._pending.pop(key, None)
        self._pending[key] = value
        if len(self._pending) > self._limit:
            del self._pending[next(iter(self._pending))]
        self._wake.set()

    async def take(self) -> list[V]:
        """All queued values, oldest first; waits until there is one."""
        await self.wait()
        return self.drain()

    async def wait(self) -> None:
        """Wait until something is queued."""
        await self._wake.wait()

    def drain(self) -> list[V]:
        """All queued values, oldest first; it may be none."""
        self._wake.clear()
        values = list(self._pending.values())
        self._pending.clear()
        return values


class Broadcast(Generic[K, V]):
    """Hands each published value to all subscriptions. Beyond ``limit`` keys a queue loses its oldest."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._subscriptions: set[Subscription[K, V]] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def publish(self, key: K, value: V) -> None:
        """Never blocks."""
        for subscription in self._subscriptions:
            subscription.put(key, value)

    @contextmanager
    def subscribe(self) -> Iterator[Subscription[K, V]]:
        """What is published within the ``with`` block is queued in the subscription."""
        subscription: Subscription[K, V] = Subscription(self._limit)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
