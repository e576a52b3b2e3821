import asyncio

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.serve.kubelet_api.access.ttlcache import TtlCache
from pykubelet.testing.clock import VirtualClock


class Source:
    """Returns growing numbers and counts the calls."""

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


async def test_answer_is_cached_for_its_ttl() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0)
    assert [await cache.get("a", source.ask) for _ in range(2)] == [1, 1]
    await clock.advance(9.9)
    assert await cache.get("a", source.ask) == 1
    await clock.advance(0.2)
    assert await cache.get("a", source.ask) == 2


async def test_ttl_depends_on_the_answer() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda value: 0.0 if value == 1 else 5.0)
    assert [await cache.get("a", source.ask) for _ in range(3)] == [1, 2, 2]


async def test_concurrent_callers_share_one_call() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0)
    source.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.get("a", source.ask)) for _ in range(20)]
        other = group.create_task(cache.get("b", source.ask))
        await asyncio.sleep(0)
        source.gate.set()
    assert {task.result() for task in tasks} == {1}
    assert other.result() == 2
    assert source.asked == 2


async def test_errors_are_not_cached() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0)
    source.error = Transient("away")
    with pytest.raises(Transient):
        await cache.get("a", source.ask)
    source.error = None
    assert await cache.get("a", source.ask) == 2


async def test_error_is_raised_to_all_waiting_callers_after_one_call() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0)
    source.gate.clear()
    source.error = Transient("away")
    tasks = [asyncio.get_running_loop().create_task(cache.get("a", source.ask)) for _ in range(20)]
    await asyncio.sleep(0)
    source.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {Transient}
    assert source.asked == 1
    source.error = None
    assert await cache.get("a", source.ask) == 2


async def test_cancelled_caller_leaves_the_call_to_the_next() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0)
    source.gate.clear()
    first, second = (asyncio.get_running_loop().create_task(cache.get("a", source.ask)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    source.gate.set()
    assert await second == 2


async def test_falsy_answers_do_not_evict_truthy_ones() -> None:
    clock, answers = VirtualClock(), {"good": 1}
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0, size=3)
    asked: list[str] = []

    async def get(name: str) -> int:
        async def ask() -> int:
            asked.append(name)
            return answers.get(name, 0)

        return await cache.get(name, ask)

    await get("good")
    for number in range(20):
        await get(f"made-up-{number}")
    assert len(cache) == 4
    asked.clear()
    assert (await get("good"), asked) == (1, [])


async def test_cache_is_bounded() -> None:
    clock, source = VirtualClock(), Source()
    cache: TtlCache[str, int] = TtlCache(clock=clock, ttl=lambda _: 10.0, size=3)
    for name in "abcde":
        await cache.get(name, source.ask)
    assert len(cache) == 3
    assert await cache.get("e", source.ask) == 5
    assert await cache.get("a", source.ask) == 6
