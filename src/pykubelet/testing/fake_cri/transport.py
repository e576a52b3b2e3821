"""Calls to the fake runtime without gRPC, with deadlines on its clock."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from grpc.aio import AioRpcError, Metadata

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.router import Router

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)
_Result = TypeVar("_Result")


class DirectTransport:
    """A `kubelet.actuate.cri.transport.Transport`."""

    def __init__(self, router: Router, clock: Clock) -> None:
        self._router = router
        self._clock = clock

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None) -> _Reply:
        try:
            return await _with_deadline(self._router.call(call, request), timeout, self._clock)
        except RpcError as failure:
            raise _rpc_error(failure.code, failure.details) from failure

    async def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: Seconds | None
    ) -> AsyncGenerator[_Reply, None]:
        # The fake's lists are never slow, so the deadline of a stream is ignored.
        try:
            async with aclosing(self._router.stream(call, request)) as replies:
                async for reply in replies:
                    yield reply
        except RpcError as failure:
            raise _rpc_error(failure.code, failure.details) from failure

    async def close(self) -> None:
        return None


async def _with_deadline(work: Coroutine[None, None, _Result], timeout: Seconds | None, clock: Clock) -> _Result:
    if timeout is None:
        return await work
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(timeout))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


def _rpc_error(code: grpc.StatusCode, details: str) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details, None)
