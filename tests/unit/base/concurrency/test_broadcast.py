"""The broadcast: newest value per key, bounded, never blocking."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.concurrency.broadcast import Broadcast, Subscription


async def test_values_come_in_order() -> None:
    broadcast: Broadcast[str, int] = Broadcast()
    with broadcast.subscribe() as subscription:
        broadcast.publish("a", 1)
        broadcast.publish("b", 2)
        assert await subscription.take() == [1, 2]
        broadcast.publish("c", 3)
        assert await subscription.take() == [3]


async def test_newer_value_replaces_the_pending_one() -> None:
    broadcast: Broadcast[str, int] = Broadcast()
    with broadcast.subscribe() as slow, broadcast.subscribe() as fast:
        broadcast.publish("a", 1)
        assert await fast.take() == [1]
        broadcast.publish("b", 2)
        broadcast.publish("a", 3)
        assert await slow.take() == [2, 3]
        assert await fast.take() == [2, 3]


async def test_take_waits_for_a_value() -> None:
    broadcast: Broadcast[str, int] = Broadcast()
    with broadcast.subscribe() as subscription:
        taking = asyncio.ensure_future(subscription.take())
        await asyncio.sleep(0)
        assert not taking.done()
        broadcast.publish("a", 1)
        assert await taking == [1]


async def test_unsubscribed_queues_get_nothing() -> None:
    broadcast: Broadcast[str, int] = Broadcast()
    with broadcast.subscribe():
        assert len(broadcast) == 1
    assert len(broadcast) == 0
    broadcast.publish("a", 1)


@given(keys=st.lists(st.integers(0, 20), max_size=60), limit=st.integers(1, 10))
def test_queue_is_bounded_and_keeps_the_newest(keys: list[int], limit: int) -> None:
    subscription: Subscription[int, int] = Subscription(limit)
    for position, key in enumerate(keys):
        subscription.put(key, position)
    newest = {key: position for position, key in enumerate(keys)}
    expected = sorted(newest.values())[-limit:]
    if expected:
        assert asyncio.run(subscription.take()) == expected


async def test_wake_ends_a_wait_with_nothing_queued() -> None:
    broadcast: Broadcast[str, int] = Broadcast()
    with broadcast.subscribe() as watcher:
        watcher.wake()
        assert await watcher.take() == []
        broadcast.publish("a", 1)
        assert await watcher.take() == [1]
