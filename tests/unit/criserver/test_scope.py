"""Tasks of the server: what becomes of one that fails, and which belong to the trace of the call that begins them."""

import asyncio

from pykubelet.base import tracing
from pykubelet.base.concurrency.guard import item_failures
from pykubelet.criserver.scope import ServerScope
from pykubelet.testing.clock import VirtualClock
from tests.unit.base.tracing.recorded import recording


async def test_supervised_task_is_no_part_of_the_trace_of_the_call_that_begins_it() -> None:
    traces: dict[str, bool] = {}

    async def work(name: str) -> None:
        traces[name] = bool(tracing.carrier())

    with recording():
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            scope = ServerScope.of(tasks, VirtualClock())
            with tracing.span("StartContainer"):
                scope.supervise("test", lambda: work("watch"), "watch")
                scope.begin(lambda: work("part of the call"), "part")
    assert traces == {"watch": False, "part of the call": True}


async def test_part_that_raises_is_run_again_and_keeps_no_other() -> None:
    """As one of the loops and watchers of the server, whose error no one foresaw."""
    clock, runs, others = VirtualClock(), 0, 0

    async def bad() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise KeyError("defect")

    async def good() -> None:
        nonlocal others
        others += 1

    before = item_failures().get("test.parts", 0)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        scope = ServerScope.of(tasks, clock)
        scope.supervise("test.parts", bad, "bad")
        scope.supervise("test.parts", good, "good")
        await clock.settle()
        assert (runs, others) == (1, 1)
        await clock.advance(10)
    assert (runs, others) == (3, 1)
    assert item_failures()["test.parts"] - before == 2
