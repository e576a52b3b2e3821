"""Tasks of the server: which of them belong to the trace of the call that begins them."""

import asyncio

from pykubelet.base import tracing
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
                scope.supervise(lambda: work("watch"), "watch")
                scope.begin(lambda: work("part of the call"), "part")
    assert traces == {"watch": False, "part of the call": True}
