"""Waiting without fixed sleeps."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from pykubelet.base.concurrency import blocking, thread_calls
from pykubelet.base.errors import Transient
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import awaits_blocking_calls, held_calls, nothing_within, settle, until


async def test_until_condition_never_holds_fails_at_the_limit() -> None:
    with pytest.raises(AssertionError, match="not within"):
        await until(lambda: False, 0.01)


async def test_settle_waits_for_callbacks_timers_sockets_and_blocking_calls() -> None:
    done: list[str] = []
    loop = asyncio.get_running_loop()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    async def talk() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1") as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"x")
            writer.write_eof()
            done.append((await reader.read()).decode())
            writer.close()
            await writer.wait_closed()

    talking = asyncio.create_task(talk())
    loop.call_later(0.03, lambda: loop.call_soon(done.append, "timer"))
    call = asyncio.create_task(blocking.call("test", time.sleep, 0.02))
    call.add_done_callback(lambda _: done.append("call"))
    later = loop.call_later(60, done.append, "later")
    await settle()
    assert sorted(done) == ["call", "timer", "x"]
    assert talking.done()
    later.cancel()


@pytest.mark.parametrize("settled", [settle, VirtualClock().settle])
async def test_long_blocking_call_is_waited_for(
    settled: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a call takes long that is short on every other, such as a write to the disk."""
    monkeypatch.setattr(thread_calls, "SHORT", 0.001)
    end = threading.Event()
    call = asyncio.create_task(blocking.call("test", end.wait))
    asyncio.get_running_loop().call_later(0.3, end.set)
    await settled()
    assert call.done()


@pytest.mark.parametrize("settled", [settle, VirtualClock().settle])
async def test_calls_that_the_test_holds_or_that_missed_their_deadline_are_not_waited_for(
    settled: Callable[[], Awaitable[None]],
) -> None:
    end = threading.Event()
    try:
        with pytest.raises(Transient):
            await blocking.call("late", end.wait, deadline=0.001)
        assert not awaits_blocking_calls()
        held = asyncio.create_task(blocking.call("test", end.wait))
        with held_calls():
            await settled()
            assert not held.done()
        assert awaits_blocking_calls(), "it was not waited for until it would have counted as hanging"
    finally:
        end.set()
    assert await held
    await until(lambda: "late" not in {each.owner for each in blocking.hung()})


async def test_settle_with_nothing_to_do_returns_before_its_time() -> None:
    start = time.monotonic()
    await settle(30)
    assert time.monotonic() - start < 30


async def test_nothing_within_fails_as_soon_as_the_condition_holds() -> None:
    done: list[str] = []
    asyncio.get_running_loop().call_later(0.01, done.append, "timer")
    with pytest.raises(AssertionError, match="came about"):
        async with asyncio.timeout(20):
            await nothing_within(lambda: done, 3600)


async def test_nothing_within_waits_its_time() -> None:
    start = asyncio.get_running_loop().time()
    await nothing_within(lambda: False, 0.03)
    assert asyncio.get_running_loop().time() - start >= 0.03
