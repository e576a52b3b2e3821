"""Repairs: independent of each other, retried, and not delaying the start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.base import tracing
from pykubelet.base.errors import Permanent
from pykubelet.criserver import repairs as module
from pykubelet.criserver.repairs import Repairs
from pykubelet.testing.clock import VirtualClock
from tests.unit.base.tracing.recorded import recording


@asynccontextmanager
async def _repairs() -> AsyncIterator[tuple[Repairs, VirtualClock]]:
    clock = VirtualClock()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        repairs = Repairs(tasks, clock)
        runs = tasks.create_task(repairs.run())
        yield repairs, clock
        runs.cancel()


@pytest.mark.parametrize("error", [Permanent("immutable"), OSError(5, "Input/output error"), KeyError("defect")])
async def test_failed_repair_is_quarantined_and_retried(error: Exception) -> None:
    tries: list[str] = []

    async def works() -> None:
        tries.append("works")

    async def fails() -> None:
        tries.append("fails")
        if tries.count("fails") < 3:
            raise error

    async with _repairs() as (repairs, clock):
        for number in range(3):
            repairs.add("container", f"good-{number}", works)
        repairs.add("container", "bad", fails)
        repairs.add("container", "last", works)
        await repairs.wait_for_first_attempts(10)
        assert tries.count("works") == 4
        (left,) = repairs.unfinished()
        assert (left.kind, left.id) == ("container", "bad")
        assert str(error) in left.error
        for _ in range(40):
            await clock.advance(0.5)
        assert tries.count("fails") == 3
        assert repairs.unfinished() == []


async def test_hung_repairs_delay_neither_others_nor_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOT", 0.02)
    ended, hang = asyncio.Event(), asyncio.Event()

    async def works() -> None:
        ended.set()

    async with _repairs() as (repairs, _):
        for number in range(20):
            repairs.add("sandbox", f"hangs-{number}", lambda: _wait(hang))
        repairs.add("sandbox", "works", works)
        await repairs.wait_for_first_attempts(0.01)
        await ended.wait()
        assert {item.error for item in repairs.unfinished()} == {""}
        hang.set()
        await repairs.wait_for_first_attempts(10)
        assert repairs.unfinished() == []


async def test_repair_in_progress_is_not_started_twice() -> None:
    count, go = 0, asyncio.Event()

    async def work() -> None:
        nonlocal count
        count += 1
        await go.wait()

    async with _repairs() as (repairs, clock):
        repairs.add("container", "one", work)
        await clock.advance(5)
        repairs.add("container", "one", work)
        await clock.advance(5)
        go.set()
        await repairs.wait_for_first_attempts(10)
        assert count == 1


async def test_repairs_end_with_the_server() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ExceptionGroup):
        async with _repairs() as (repairs, clock):
            repairs.add("container", "one", work)
            await clock.advance(1)
            raise ValueError("the server ends")
    assert ended.is_set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_repair_is_no_part_of_the_trace_of_the_call_that_begins_it() -> None:
    traces = []

    async def work() -> None:
        traces.append(dict(tracing.carrier()))

    with recording():
        async with _repairs() as (repairs, _):
            with tracing.span("StopPodSandbox"):
                repairs.add("sandbox", "s", work)
            await repairs.wait_for_first_attempts(10)
    assert traces == [{}]
