"""Dispatch calls to their handlers, through the call log and the injected faults."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar, cast

from google.protobuf.message import Message
from grpc import StatusCode

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.testing.fake_cri.faults import CallRecord, Fault, RpcError

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)


class Router:
    """The calls that the runtime serves. `name_target` returns the `CallRecord.target` of a request."""

    def __init__(self, clock: Clock, unsupported: set[str], name_target: Callable[[Message], str]) -> None:
        self.log: list[CallRecord] = []
        self.faults: list[Fault] = []
        self.pending = 0
        self.unsupported = unsupported
        self.unary_calls: list[UnaryCall[Message, Message]] = []
        self.stream_calls: list[StreamCall[Message, Message]] = []
        self._clock = clock
        self._name_target = name_target
        self._unary: dict[str, Callable[..., Message | Awaitable[Message]]] = {}
        self._streams: dict[str, Callable[..., AsyncIterator[Message]]] = {}

    def serve(
        self, call: UnaryCall[_Request, _Reply], handler: Callable[[_Request], _Reply | Awaitable[_Reply]]
    ) -> None:
        """Register a handler of a call: a plain function or a coroutine function."""
        self.unary_calls.append(cast("UnaryCall[Message, Message]", call))
        self._unary[call.path] = handler

    def serve_stream(
        self, call: StreamCall[_Request, _Reply], handler: Callable[[_Request], AsyncGenerator[_Reply, None]]
    ) -> None:
        """Register a handler of a call with a stream of replies."""
        self.stream_calls.append(cast("StreamCall[Message, Message]", call))
        self._streams[call.path] = handler

    async def call(self, call: UnaryCall[_Request, _Reply], request: _Request) -> _Reply:
        """Make a call. Raises `RpcError`."""
        self.pending += 1
        try:
            # Messages are copied, as over a wire: neither side may see later changes of the other.
            request = _copy(request)
            fault = await self._begin(call.name, call.path in self._unary, request)
            result = self._unary[call.path](request)
            reply = await result if inspect.isawaitable(result) else result
            if fault is not None:
                await fault.strike(self._clock)
            return cast("_Reply", _copy(reply))
        finally:
            self.pending -= 1

    async def stream(self, call: StreamCall[_Request, _Reply], request: _Request) -> AsyncGenerator[_Reply, None]:
        """Make a call with a stream of replies. Raises `RpcError`."""
        fault = await self._begin(call.name, call.path in self._streams, request)
        replies = cast("AsyncGenerator[_Reply, None]", self._streams[call.path](request))
        async with aclosing(replies):
            async for reply in replies:
                yield _copy(reply)
        if fault is not None:
            await fault.strike(self._clock)

    async def _begin(self, method: str, known: bool, request: Message) -> Fault | None:
        """Log the call and apply a fault; returns a fault that has to be applied after the call."""
        target = self._name_target(request)
        self.log.append(CallRecord(method, target, self._clock.now(), request))
        if not known or method in self.unsupported:
            raise RpcError(StatusCode.UNIMPLEMENTED, f"unknown method {method}")
        fault = next((fault for fault in self.faults if fault.matches(method, target)), None)
        if fault is None:
            return None
        fault.hits += 1
        if fault.after:
            return fault
        await fault.strike(self._clock)
        return None


_AnyMessage = TypeVar("_AnyMessage", bound=Message)


def _copy(message: _AnyMessage) -> _AnyMessage:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
