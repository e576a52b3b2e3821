"""Calls that run to completion without their clients."""

import asyncio

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.criserver.server.completion import run_to_completion
from pykubelet.criserver.server.creations import Creations
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until


def _asked(number: int) -> pb.StopContainerRequest:
    return pb.StopContainerRequest(container_id="c", timeout=number)


async def test_call_continues_when_the_client_disconnects() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(request: pb.StopContainerRequest) -> int:
        begun.set()
        await go.wait()
        done.set()
        return int(request.timeout)

    async with asyncio.TaskGroup() as tasks:
        call = asyncio.ensure_future(run_to_completion(tasks, work)(_asked(7)))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
    assert done.is_set()


async def test_results_and_errors_are_returned_without_ending_the_server() -> None:
    async def double(request: pb.StopContainerRequest) -> int:
        if request.timeout < 0:
            raise NotFound("no")
        return 2 * int(request.timeout)

    async with asyncio.TaskGroup() as tasks:
        call = run_to_completion(tasks, double)
        with pytest.raises(NotFound):
            await call(_asked(-1))
        assert await call(_asked(4)) == 8


async def test_end_of_the_server_cancels_the_call() -> None:
    begun, cut = asyncio.Event(), asyncio.Event()

    async def work(request: pb.StopContainerRequest) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return int(request.timeout)

    async def serve() -> None:
        async with asyncio.TaskGroup() as tasks:
            await run_to_completion(tasks, work)(_asked(1))

    server = asyncio.ensure_future(serve())
    await begun.wait()
    server.cancel()
    with pytest.raises(asyncio.CancelledError):
        await server
    assert cut.is_set()


async def test_retry_of_a_call_in_progress_joins_it() -> None:
    """Retries of a hung call do not pile up."""
    begun, go = list[int](), asyncio.Event()

    async def work(request: pb.StopContainerRequest) -> int:
        begun.append(request.timeout)
        await go.wait()
        return len(begun)

    async with asyncio.TaskGroup() as tasks:
        call = run_to_completion(tasks, work)
        for _ in range(100):
            waiting = asyncio.ensure_future(call(_asked(1)))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        last, other = asyncio.ensure_future(call(_asked(1))), asyncio.ensure_future(call(_asked(2)))
        await until(lambda: begun == [1, 2])
        go.set()
        assert await last == await other == 2
        assert await call(_asked(1)) == 3, "what is over is not joined"


async def test_call_to_a_stopping_server_is_transient() -> None:
    async def work(request: pb.StopContainerRequest) -> int:
        return int(request.timeout)

    async with asyncio.TaskGroup() as tasks:
        call = run_to_completion(tasks, work)
        assert await call(_asked(1)) == 1
    with pytest.raises(Transient, match="is being stopped"):
        await call(_asked(1))
    with pytest.raises(Transient, match="is being stopped"):
        await Creations[int](tasks).run("a", b"x", lambda: work(_asked(1)))
