"""Memory is released soon after the start, and in each minute with work."""

import asyncio
import gc
import importlib
import linecache
import sys

import pytest

from pykubelet.linux.memory_trim import EVERY_SECONDS, FIRST_SECONDS, WORTH, release_memory, trim_periodically
from pykubelet.testing.clock import VirtualClock


async def test_memory_is_released_soon_after_the_start_and_in_each_minute_with_work() -> None:
    clock = VirtualClock()
    times: list[float] = []
    done = asyncio.Event()
    used = 0.0

    def work() -> None:
        times.append(clock.monotonic())
        loop.call_soon_threadsafe(done.set)

    loop = asyncio.get_running_loop()
    start = clock.monotonic()
    task = asyncio.create_task(trim_periodically(clock, work, lambda: used))
    try:
        for wait in (FIRST_SECONDS, EVERY_SECONDS, EVERY_SECONDS):
            await clock.settle()
            used += WORTH
            await clock.advance(wait)
            await done.wait()
            done.clear()
        await clock.settle()
        for _ in range(2):
            used += 0.6 * WORTH
            await clock.advance(EVERY_SECONDS)
            await clock.settle()
        await done.wait()
        assert [each - start for each in times] == [5.0, 65.0, 125.0, 245.0]
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gc.unfreeze()


def test_giving_back_forgets_what_imports_have_left_and_later_ones_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<generated>", (1, None, ["x\n"], "<generated>"))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    importlib.import_module("colorsys")
    assert sys.path_importer_cache
    release_memory()
    assert not sys.path_importer_cache
    assert not linecache.cache
    del sys.modules["colorsys"]
    assert importlib.import_module("colorsys").rgb_to_hsv(0, 0, 0) == (0, 0, 0)
