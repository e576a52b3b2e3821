"""Blocking calls: a call that hangs delays only its owner."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pykubelet.base.concurrency import blocking, thread_calls, thread_pool
from pykubelet.base.errors import Transient
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import held_calls, settle, until


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Event that hanging calls wait for; set at the end, so that no thread stays."""
    event = threading.Event()
    with held_calls():
        yield event
    event.set()


class _GatedFunction:
    """A function for a thread that waits for ``release``, and tells that it has begun."""

    def __init__(self, release: threading.Event) -> None:
        self._release = release
        self.begun = threading.Event()

    def __call__(self) -> bool:
        self.begun.set()
        return self._release.wait()


def _hangs(owner: str) -> bool:
    return any(each.owner == owner for each in blocking.hung())


async def test_result_or_error_of_a_blocking_call_is_passed_to_the_caller() -> None:
    assert await blocking.call("pod/a", divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await blocking.call("pod/a", divmod, 7, 0)
    assert await blocking.call_to_end("pod/a", divmod, 7, 2) == (3, 1)


async def test_timeout_of_the_function_itself_is_no_deadline() -> None:
    def refuse() -> None:
        raise TimeoutError(110, "Connection timed out")

    with pytest.raises(TimeoutError, match="Connection timed out"):
        await blocking.call("pod/a", refuse)


async def test_hung_calls_of_many_owners_do_not_delay_another(release: threading.Event) -> None:
    hanging = [
        asyncio.create_task(blocking.call(f"pod/{number}", release.wait)) for number in range(12) for _ in range(4)
    ]
    await asyncio.sleep(0)
    # Alone 0.3 s: 48 calls, 8 at a time, each young for 0.05 s. They hang until the end, so that no later call waits.
    assert await blocking.call("pod/free", int, deadline=30.0) == 0
    await until(lambda: thread_calls.scheduler_of_loop()._short.free == thread_calls._PARALLEL)
    assert await blocking.call("pod/free", int, deadline=30.0) == 0
    assert not any(each.done() for each in hanging)
    release.set()
    await asyncio.gather(*hanging)


async def test_owner_waits_for_its_own_calls_only_and_at_most_four_run(release: threading.Event) -> None:
    running: list[int] = []

    def hang() -> None:
        running.append(1)
        release.wait()

    hanging = [asyncio.create_task(blocking.call("pod/a", hang)) for _ in range(6)]
    await until(lambda: len(running) == 4)
    with pytest.raises(Transient, match=r"has not ended within 0\.1 s"):
        await blocking.call("pod/a", int, deadline=0.1)
    assert await blocking.call("pod/b", int) == 0
    assert len(running) == 4
    release.set()
    await asyncio.gather(*hanging)
    assert len(running) == 6


async def test_call_past_its_deadline_is_given_up_reported_and_counted(
    release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[thread_calls.HungCall] = []
    before = blocking.hung_total().get("volume", 0)
    with blocking.on_hung(reported.append):
        with pytest.raises(Transient, match=r"for volume/data has not ended within 0\.1 s"):
            await blocking.call("volume/data", release.wait, deadline=0.1)
        await until(lambda: reported)
    assert [each.owner for each in reported] == ["volume/data"]
    assert _hangs("volume/data")
    assert blocking.hung_total()["volume"] == before + 1
    assert "blocking call not responding" in caplog.text
    release.set()
    await until(lambda: not _hangs("volume/data"))


async def test_cancelled_call_is_left_at_once(release: threading.Event) -> None:
    waits = _GatedFunction(release)
    task = asyncio.create_task(blocking.call("pod/a", waits))
    await until(waits.begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancellation_of_a_call_to_its_end_waits_for_the_function(release: threading.Event) -> None:
    waits = _GatedFunction(release)
    task = asyncio.create_task(blocking.call_to_end("pod/a", waits))
    await until(waits.begun.is_set)
    for _ in range(3):
        task.cancel()
        await settle()
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancellation_of_a_call_to_its_end_is_passed_on_at_the_deadline(release: threading.Event) -> None:
    waits = _GatedFunction(release)
    task = asyncio.create_task(blocking.call_to_end("pod/a", waits, deadline=1.0 * PATIENCE))
    await until(waits.begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30 * PATIENCE):
            await task
    with pytest.raises(Transient):
        await blocking.call_to_end("pod/a", release.wait, deadline=0.1)


async def test_stoppable_call_hears_of_the_cancellation() -> None:
    asked = threading.Event()

    def work(stop: object) -> None:
        while not stop():  # type: ignore[operator]
            asked.set()
            time.sleep(0)

    task = asyncio.create_task(blocking.call_stoppable("images", work))
    await until(asked.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_stoppable_call_that_stalls_is_asked_to_stop_and_has_ended_when_its_caller_goes_on() -> None:
    ended = threading.Event()

    def work(stop: Callable[[], bool]) -> None:
        while not _hangs("rootfs/a"):
            time.sleep(0)
        while not stop():
            time.sleep(0)
        ended.set()
        raise Transient("stopped")

    before = blocking.hung_total().get("rootfs", 0)
    with pytest.raises(Transient, match=r"work for rootfs/a has made no progress for 0\.2 s"):
        await blocking.call_stoppable("rootfs/a", work, stall=0.2, at_once=1)
    assert ended.is_set()
    assert not _hangs("rootfs/a") and blocking.hung_total()["rootfs"] == before + 1


async def test_stoppable_call_that_hangs_is_left_after_a_grace(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "_GRACE", 0.1)
    with pytest.raises(Transient, match="no progress"):
        await blocking.call_stoppable("rootfs/a", lambda stop: release.wait(), stall=0.1, at_once=1)
    assert _hangs("rootfs/a")
    with pytest.raises(Transient, match=r"has not ended within 0\.1 s"):
        await blocking.call_to_end("rootfs/a", int, deadline=0.1, at_once=1)
    release.set()
    assert await blocking.call_to_end("rootfs/a", int, at_once=1) == 0
    assert not _hangs("rootfs/a")


async def test_stoppable_call_that_makes_steps_may_take_longer_than_its_stall() -> None:
    def work(stop: Callable[[], bool]) -> str:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            if stop():
                return "stopped"
            time.sleep(0)
        return "done"

    assert await blocking.call_stoppable("rootfs/a", work, stall=0.5, at_once=1) == "done"


async def test_cancelled_waiting_call_gives_its_turn_to_the_next(release: threading.Event) -> None:
    hanging = [asyncio.create_task(blocking.call("pod/a", release.wait)) for _ in range(4)]
    waiting = [asyncio.create_task(blocking.call("pod/a", int)) for _ in range(5)]
    await settle()
    for task in waiting[:4]:
        task.cancel()
    await asyncio.sleep(0)
    release.set()
    assert await waiting[4] == 0
    await asyncio.gather(*hanging)


async def test_context_of_the_caller_is_kept() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("kept")
    assert await blocking.call("pod/a", variable.get) == "kept"


async def test_threads_are_reused() -> None:
    seen = {await blocking.call("pod/a", threading.get_ident) for _ in range(50)}
    assert len(seen) <= 2


def test_loop_ends_while_a_call_hangs(release: threading.Event) -> None:
    async def main() -> None:
        with pytest.raises(Transient):
            await blocking.call("pod/a", release.wait, deadline=0.05)

    before = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - before < 5


async def test_pods_whose_calls_hang_leave_threads_to_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_calls, "_threads", thread_pool.ThreadPool())
    monkeypatch.setattr(thread_pool, "_MOST", 6)
    monkeypatch.setattr(thread_pool, "_RESERVED", 2)
    gone = threading.Event()
    hanging = [asyncio.create_task(blocking.call(f"pod/{number}", gone.wait)) for number in range(4)]
    try:
        await until(lambda: thread_calls._threads._of_others == 4)
        assert await blocking.call("images", lambda: "served", deadline=10) == "served"
        with pytest.raises(Transient, match="4 blocking calls are running"):
            await blocking.call("pod/other", gone.wait, deadline=10)
    finally:
        gone.set()
        await asyncio.gather(*hanging)
    assert await blocking.call("pod/other", lambda: "served", deadline=10) == "served"
