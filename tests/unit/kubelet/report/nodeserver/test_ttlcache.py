import asyncio

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.report.nodeserver.ttlcache import TtlCache
from pykubelet.testing.clock import VirtualClock


class Source:
    """Answers with numbers, counting."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def ask(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return mine


async def test_an_answer_is_kept_for_its_time() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock, lambda _: 10.0)
    assert [await cache.get("a", source.ask) for _ in range(2)] == [1, 1]
    await clock.advance(9.9)
    assert await cache.get("a", source.ask) == 1
    await clock.advance(0.2)
    assert await cache.get("a", source.ask) == 2


async def test_the_answer_decides_how_long_it_is_kept() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock, lambda value: 0.0 if value == 1 else 5.0)
    assert [await cache.get("a", source.ask) for _ in range(3)] == [1, 2, 2]


async def test_many_who_want_the_same_ask_once() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock, lambda _: 10.0)
    source.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.get("a", source.ask)) for _ in range(20)]
        other = group.create_task(cache.get("b", source.ask))
        await asyncio.sleep(0)
        source.gate.set()
    assert {task.result() for task in tasks} == {1}
    assert other.result() == 2
    assert source.asked == 2


async def test_errors_are_not_kept() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock, lambda _: 10.0)
    source.error = Transient("away")
    with pytest.raises(Transient):
        await cache.get("a", source.ask)
    source.error = None
    assert await cache.get("a", source.ask) == 2


async def test_it_does_not_grow_without_end() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock, lambda _: 10.0, size=3)
    for name in "abcde":
        await cache.get(name, source.ask)
    assert len(cache) == 3
    assert await cache.get("e", source.ask) == 5
    assert await cache.get("a", source.ask) == 6
