"""Common part of all CRI calls: deadlines, conversion of errors, measurements."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError
from msgspec import Struct

from pykubelet.base import tracing
from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.concurrency.answer import answer_of
from pykubelet.base.errors import Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri.errors import CriError, cri_error
from pykubelet.kubelet.actuate.cri.transport import StreamCall, Transport, UnaryCall
from pykubelet.kubelet.types.reports.work_meter import NoMeter, WorkMeter

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

_log = logging.getLogger(__name__)

Observer: TypeAlias = Callable[[str, Seconds, bool], None]
"""Called after each call with its operation name, the duration in seconds, and whether it failed."""


def _unobserved(_operation: str, _seconds: Seconds, _failed: bool) -> None:
    return None


class CriOptions(Struct, frozen=True):
    """Options of a `CriClient`."""

    request_timeout: Seconds = 120.0
    """Deadline of a call (`runtimeRequestTimeout`); some calls have a longer one, see their methods."""
    list_streaming: bool = False
    """Use the `Stream…` calls for lists while the runtime has them (KEP-5825)."""
    patience: Seconds = 10.0
    """Maximum seconds that a cancelled caller waits for a call that should not be interrupted."""
    observe: Observer = _unobserved
    meter: WorkMeter = NoMeter()
    """Records sandboxes and image volumes, which have metrics of their own."""
    clock: Clock = SystemClock()
    """Clock for measuring durations; deadlines are those of gRPC."""


class Caller:
    """Base class of the classes that `CriClient` consists of."""

    def __init__(self, transport: Transport, options: CriOptions) -> None:
        self._transport = transport
        self._request_timeout = options.request_timeout
        self._list_streaming = options.list_streaming
        self._patience = options.patience
        self._observe = options.observe
        self._meter = options.meter
        self._clock = options.clock

    async def _call(
        self,
        call: UnaryCall[_Request, _Reply],
        request: _Request,
        target: str = "",
        extra: Seconds | None = 0.0,
    ) -> _Reply:
        """Make a call about `target`, with `extra` seconds on top of the usual deadline (None: no deadline)."""
        timeout = None if extra is None else self._request_timeout + extra
        started = self._clock.monotonic()
        failed = False
        name, attributes = tracing.rpc_span(call.service, call.name)
        try:
            with tracing.span(name, attributes, kind=tracing.CallSide.CLIENT, nested=True):
                try:
                    return await self._transport.unary(call, request, timeout)
                except AioRpcError as error:
                    failed = True
                    raise _wrap(error, call.name, target) from error
        finally:
            self._observe(call.operation, self._clock.monotonic() - started, failed)

    async def _call_unbroken(
        self,
        call: UnaryCall[_Request, _Reply],
        request: _Request,
        target: str = "",
        extra: Seconds | None = 0.0,
    ) -> _Reply:
        """Make a call that must not be interrupted: a cancellation of the caller takes effect when the call has ended.

        containerd rolls back a start whose caller is gone, after the container has run for a moment, and the rollback
        is incomplete. If the runtime hangs, the caller waits for ``CriOptions.patience`` at most.
        """
        task = asyncio.create_task(self._call(call, request, target, extra), name=f"cri-{call.name}")
        try:
            return await answer_of(task)
        except asyncio.CancelledError:
            await self._await_end(task, {"call": call.name, "target": target})
            raise

    async def _await_end(self, task: "asyncio.Task[_Reply]", fields: dict[str, str]) -> None:
        """Wait for a call whose caller was cancelled; cancel it after ``patience`` seconds, and log the result."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while not task.done():
            if loop.time() >= deadline:
                task.cancel()
            try:
                await asyncio.wait({task}, timeout=max(0.0, deadline - loop.time()) or None)
            except asyncio.CancelledError:
                continue  # cancelled again: the call is still not interrupted
        if task.cancelled():
            _log.warning("runtime call cancelled: its caller was cancelled and it timed out", extra=fields)
        elif error := task.exception():
            _log.warning("runtime call failed after its caller was cancelled", extra=fields | {"error": str(error)})
        else:
            _log.debug("runtime call ended after its caller was cancelled", extra=fields)

    async def _replies(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: Seconds | None
    ) -> AsyncGenerator[_Reply, None]:
        """Yield the replies of a stream until the server ends it. Close the iterator to end it earlier."""
        started = self._clock.monotonic()
        failed = False
        try:
            async with aclosing(self._transport.stream(call, request, timeout)) as replies:
                async for reply in replies:
                    yield reply
        except AioRpcError as error:
            failed = True
            raise _wrap(error, call.name, "") from error
        finally:
            self._observe(call.operation, self._clock.monotonic() - started, failed)

    async def _parts(self, call: StreamCall[_Request, _Reply], request: _Request) -> list[_Reply] | None:
        """Return all parts of a streamed list; None if streaming is off or unsupported: use the unary call instead."""
        if not self._list_streaming:
            return None
        try:
            return [part async for part in self._replies(call, request, self._request_timeout)]
        except Unsupported:
            self._list_streaming = False
            return None


def bad_reply(call: UnaryCall[_Request, _Reply], target: str, fault: str) -> CriError:
    """Return the error for a reply without a required field."""
    return cri_error(StatusCode.INTERNAL, call.name, target, f"the runtime's reply has {fault}")


def _wrap(error: AioRpcError, call: str, target: str) -> CriError:
    return cri_error(error.code(), call, target, error.details() or "")
