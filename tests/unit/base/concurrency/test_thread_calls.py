"""Calls in threads: short calls cost the event loop little, and long ones are watched."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from pykubelet.base.concurrency import blocking, thread_calls
from pykubelet.base.errors import Transient
from pykubelet.testing.wait import until


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each timer and each iteration of the running loop from now on."""
    loop = asyncio.get_running_loop()
    noted: list[str] = []

    def noting(name: str) -> None:
        method: Callable[..., object] = getattr(loop, name)

        def note(*args: object, **named: object) -> object:
            noted.append(name)
            return method(*args, **named)

        monkeypatch.setattr(loop, name, note)

    noting("call_at")
    noting("_run_once")
    return noted


@pytest.mark.parametrize("way", [blocking.call, blocking.call_to_end])
async def test_short_calls_share_a_timer_and_take_few_iterations_of_the_loop(
    way: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "SHORT", 100.0)
    await way("pod/a", int)  # type: ignore[misc]
    noted = _counted(monkeypatch)
    for _ in range(50):
        assert await way("pod/a", divmod, 7, 2) == (3, 1)  # type: ignore[misc]
    assert noted.count("call_at") <= 1
    assert noted.count("_run_once") <= 2 * 50 + 10  # a wake-up may take an iteration of its own


async def test_a_call_that_outlasts_the_short_time_gives_its_slot_away_and_meets_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_calls, "SHORT", 0.01)
    release = threading.Event()
    try:
        calls = [asyncio.create_task(blocking.call(f"pod/{each}", release.wait, deadline=0.2)) for each in range(20)]
        for call in calls:
            with pytest.raises(Transient, match=r"has not ended within 0\.2 s"):
                await call
        assert thread_calls.scheduler_of_loop()._short_slots.free == thread_calls._PARALLEL
        await until(lambda: blocking.running_calls(60) == 0)  # they were given up, although their threads go on
    finally:
        release.set()


async def test_a_later_short_call_is_watched_though_an_earlier_one_set_the_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_calls, "SHORT", 0.05)
    release = threading.Event()
    try:
        await blocking.call("pod/a", int)
        first = asyncio.create_task(blocking.call("pod/a", release.wait, deadline=0.1))
        await asyncio.sleep(0)
        second = asyncio.create_task(blocking.call("pod/b", release.wait, deadline=0.1))
        assert [type(error) for error in await asyncio.gather(first, second, return_exceptions=True)] == [Transient] * 2
    finally:
        release.set()


async def test_stop_iteration_of_the_function_reaches_the_caller_as_an_error() -> None:
    for way in (blocking.call, blocking.call_to_end):
        with pytest.raises(RuntimeError, match="next raised StopIteration"):
            await way("pod/a", next, iter(()))


async def test_cancelled_error_of_the_function_ends_the_call() -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await blocking.call_to_end("pod/a", cancelled)
