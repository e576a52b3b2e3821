"""Events for subscribers."""

import asyncio
from contextlib import aclosing

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.event_hub import Event, EventHub, EventKind

EVENT = Event("c1", "s1", EventKind.STARTED, 5)


async def test_every_subscriber_gets_all_later_events() -> None:
    hub = EventHub()
    hub.publish(EVENT)
    async with aclosing(hub.subscribe()) as one, aclosing(hub.subscribe()) as two:
        waiting = [asyncio.ensure_future(anext(stream)) for stream in (one, two)]
        await asyncio.sleep(0)
        hub.publish(EVENT)
        assert await asyncio.gather(*waiting) == [EVENT, EVENT]


async def test_slow_subscriber_is_disconnected_with_an_error() -> None:
    hub = EventHub()
    async with aclosing(hub.subscribe()) as stream:
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        for _ in range(5000):
            hub.publish(EVENT)
        await first
        with pytest.raises(Transient, match="too slow"):
            async for _ in stream:
                pass
