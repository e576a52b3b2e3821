"""One publisher, many watchers: a slow watcher neither delays the publisher nor makes memory grow.

Each subscriber has a queue with one entry per key: a new value replaces a value of the same key that has not been
fetched yet. A slow watcher sees fewer steps but always the newest state, and never holds more than one value per key.
"""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Subscription(Generic[K, V]):
    """The queue of one watcher."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[K, V] = {}
        self._wake = asyncio.Event()

    def put(self, key: K, value: V) -> None:
        """Queue a value; called by :class:`Broadcast`."""
        self._pending.pop(key, None)
        self._pending[key] = value
        if len(self._pending) > self._limit:
            del self._pending[next(iter(self._pending))]
        self._wake.set()

    async def take(self) -> list[V]:
        """Wait until a value is queued, then return all queued values, oldest first."""
        await self.wait()
        return self.drain()

    async def wait(self) -> None:
        """Wait until something is queued, or `wake` is called."""
        await self._wake.wait()

    def wake(self) -> None:
        """End a wait, though nothing may be queued."""
        self._wake.set()

    def drain(self) -> list[V]:
        """Return all queued values, oldest first; may be empty."""
        self._wake.clear()
        values = list(self._pending.values())
        self._pending.clear()
        return values


class Broadcast(Generic[K, V]):
    """Hands each published value to all subscriptions. Beyond ``limit`` keys a queue drops its oldest value."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._subscriptions: set[Subscription[K, V]] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def publish(self, key: K, value: V) -> None:
        """Queue a value for every subscription. Never blocks."""
        for subscription in self._subscriptions:
            subscription.put(key, value)

    @contextmanager
    def subscribe(self) -> Iterator[Subscription[K, V]]:
        """Yield a subscription that receives what is published within the ``with`` block."""
        subscription: Subscription[K, V] = Subscription(self._limit)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
