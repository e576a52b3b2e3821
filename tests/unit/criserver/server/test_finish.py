"""Calls that outlive their callers."""

import asyncio

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.criserver.server.finish import finishing


async def test_it_goes_on_when_the_caller_vanishes() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(request: int) -> int:
        begun.set()
        await go.wait()
        done.set()
        return request

    async with asyncio.TaskGroup() as tasks:
        call = asyncio.ensure_future(finishing(tasks, work)(7))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
    assert done.is_set()


async def test_results_and_errors_come_back_and_end_nothing_else() -> None:
    async def double(request: int) -> int:
        if request < 0:
            raise NotFound("no")
        return 2 * request

    async with asyncio.TaskGroup() as tasks:
        call = finishing(tasks, double)
        with pytest.raises(NotFound):
            await call(-1)
        assert await call(4) == 8


async def test_the_end_of_the_server_cuts_it() -> None:
    begun, cut = asyncio.Event(), asyncio.Event()

    async def work(request: int) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return request

    async def serve() -> None:
        async with asyncio.TaskGroup() as tasks:
            await finishing(tasks, work)(1)

    server = asyncio.ensure_future(serve())
    await begun.wait()
    server.cancel()
    with pytest.raises(asyncio.CancelledError):
        await server
    assert cut.is_set()
