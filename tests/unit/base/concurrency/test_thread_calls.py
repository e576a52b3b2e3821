"""Calls in threads: short calls cost the event loop little, and long ones are watched."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pykubelet.base.concurrency import blocking, thread_calls
from pykubelet.base.errors import Transient
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import nothing_within, until


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
        assert thread_calls.scheduler_of_loop()._short.free == thread_calls._PARALLEL
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


async def _begun(*calls: Coroutine[Any, Any, Any]) -> list["asyncio.Task[Any]"]:
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def test_calls_that_wait_for_a_slot_run_while_the_event_loop_is_busy() -> None:
    """A thread whose call has ended begins the next one, and the event loop hears of it later."""
    ran: list[int] = []
    last = threading.Event()

    def note(number: int) -> None:
        ran.append(number)
        if len(ran) == 40:
            last.set()

    calls = await _begun(*(blocking.call(f"pod/{number}", note, number) for number in range(40)))
    assert last.wait(10 * PATIENCE), "the event loop does nothing meanwhile"
    await asyncio.gather(*calls)
    assert sorted(ran) == list(range(40))
    assert blocking.running_calls(60) == 0


async def test_call_of_a_component_keeps_its_place_and_runs_in_a_thread_for_components(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_calls, "_PARALLEL", 1)
    monkeypatch.setattr(thread_calls, "SHORT", 100.0)
    release, ran = threading.Event(), list[tuple[str, int]]()

    def note(name: str) -> None:
        ran.append((name, thread_calls._threads._of_others))

    calls = await _begun(
        blocking.call("pod/a", release.wait),
        *(blocking.call(owner, note, owner) for owner in ("component", "pod/b", "pod/c")),
    )
    release.set()
    await asyncio.gather(*calls)
    assert ran == [("component", 0), ("pod/b", 1), ("pod/c", 1)]


@pytest.mark.parametrize("way", [blocking.call, blocking.call_to_end])
async def test_cancelled_call_that_waits_for_a_slot_does_not_run(
    way: Callable[..., Coroutine[Any, Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "_PARALLEL", 1)
    monkeypatch.setattr(thread_calls, "SHORT", 100.0)
    release, ran = threading.Event(), list[str]()
    first, cancelled, last = await _begun(
        way("pod/a", release.wait), way("pod/b", ran.append, "cancelled"), way("pod/b", ran.append, "last")
    )
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    release.set()
    await asyncio.gather(first, last)
    assert ran == ["last"]


async def test_call_to_its_end_that_is_cancelled_just_as_a_thread_begins_it_waits_for_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_calls, "_PARALLEL", 1)
    begun, releases = threading.Event(), [threading.Event(), threading.Event()]

    def work() -> None:
        begun.set()
        releases[1].wait()

    first, second = await _begun(blocking.call("pod/a", releases[0].wait), blocking.call_to_end("pod/b", work))
    releases[0].set()
    assert begun.wait(10 * PATIENCE)
    second.cancel()
    await first
    await nothing_within(second.done, 0.1)
    releases[1].set()
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_waiting_call_that_gets_no_thread_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_calls, "_PARALLEL", 1)
    monkeypatch.setattr(thread_calls, "SHORT", 0.01)
    release = threading.Event()
    held, *waiting = await _begun(blocking.call("pod/a", release.wait), *(blocking.call(f"pod/{n}", int) for n in "bc"))
    with monkeypatch.context() as patch:
        patch.setattr("pykubelet.base.concurrency.thread_pool._MOST", 0)
        patch.setattr(thread_calls._threads, "_idle", deque())
        for call in waiting:
            with pytest.raises(Transient, match="blocking calls are running"):
                await call
    release.set()
    assert await held
    assert await blocking.call("pod/b", int) == 0


async def test_stop_iteration_of_the_function_reaches_the_caller_as_an_error() -> None:
    for way in (blocking.call, blocking.call_to_end):
        with pytest.raises(RuntimeError, match="next raised StopIteration"):
            await way("pod/a", next, iter(()))


async def test_cancelled_error_of_the_function_ends_the_call() -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await blocking.call_to_end("pod/a", cancelled)
