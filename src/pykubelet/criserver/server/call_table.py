"""The table of a service's calls. gRPC itself answers UNIMPLEMENTED to calls that are not in it."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from pykubelet.base import tracing
from pykubelet.base.units import MIB
from pykubelet.criserver.server.errors import status_of
from pykubelet.criserver.server.request_text import ReceivedRequest, received

_log = logging.getLogger(__name__)
_Context = grpc.aio.ServicerContext[Message, Message]
_Request = TypeVar("_Request", bound=Message)
_Item = TypeVar("_Item", bound=Message)
_CHUNK = 500
_CHUNK_BYTES = 1 * MIB
"""Maximum size of a message of a stream; clients accept 4 MiB by default."""


class Observer(Protocol):
    """Learns of each call that is served."""

    def begin(self, method: str, request: Message) -> Callable[[str], None]:
        """Take the begin of a call; the function that is returned takes its end, with the name of its code."""
        ...


class Calls:
    """The calls of one gRPC service."""

    def __init__(self, service: str, observer: Observer | None = None) -> None:
        self._service = service
        self._observer = observer
        self._methods: dict[str, grpc.RpcMethodHandler[Any, Message]] = {}

    def unary(self, name: str, request: type[_Request], function: Callable[[_Request], Awaitable[Message]]) -> None:
        """Serve a call with one reply."""
        title, attributes = tracing.rpc_span(self._service, name)

        async def handle(given: ReceivedRequest[_Request], context: _Context) -> Message:
            end, result = self._begin(name, given), grpc.StatusCode.CANCELLED
            try:
                if tracing.recording():
                    headers = tracing.trace_headers(context.invocation_metadata() or ())
                    with tracing.served(title, attributes, headers):
                        reply = await function(given.checked())
                else:
                    reply = await function(given.checked())
                result = grpc.StatusCode.OK
                return reply
            except Exception as error:
                result, details = status_of(error, name)
                _log.debug("call refused", extra={"call": name, "code": result.name, "error": details})
                await context.abort(result, details)
            finally:
                if end is not None:
                    end(result.name)

        self._methods[name] = grpc.unary_unary_rpc_method_handler(handle, received(request), _serialise)

    def stream(
        self, name: str, request: type[_Request], function: Callable[[_Request], AsyncIterator[Message]]
    ) -> None:
        """Serve a call with a stream of replies."""

        async def handle(given: ReceivedRequest[_Request], context: _Context) -> AsyncGenerator[Message, None]:
            end, result = self._begin(name, given), grpc.StatusCode.CANCELLED
            try:
                async for reply in function(given.checked()):
                    yield reply
                result = grpc.StatusCode.OK
            except Exception as error:
                result, details = status_of(error, name)
                await context.abort(result, details)
            finally:
                if end is not None:
                    end(result.name)

        self._methods[name] = grpc.unary_stream_rpc_method_handler(handle, received(request), _serialise)

    def exchange(
        self,
        name: str,
        request: type[_Request],
        function: Callable[[AsyncIterator[_Request]], AsyncGenerator[Message, None]],
    ) -> None:
        """Serve a call with a stream in each direction."""

        async def handle(messages: AsyncIterator[_Request], context: _Context) -> AsyncGenerator[Message, None]:
            try:
                async with aclosing(function(messages)) as replies:
                    async for reply in replies:
                        yield reply
            except Exception as error:
                code, details = status_of(error, name)
                await context.abort(code, details)

        self._methods[name] = grpc.stream_stream_rpc_method_handler(handle, request.FromString, _serialise)

    def _begin(self, name: str, given: ReceivedRequest[Any]) -> Callable[[str], None] | None:
        return None if self._observer is None else self._observer.begin(name, given.message)

    def handler(self) -> "grpc.GenericRpcHandler[Any, Message]":
        """The table in gRPC's form."""
        return grpc.method_handlers_generic_handler(self._service, self._methods)


def chunks(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Split a list for the calls that stream it; an empty list gives one empty chunk."""
    pieces, begin, size = [], 0, 0
    for position, item in enumerate(items):
        length = item.ByteSize()
        if position > begin and (position - begin >= _CHUNK or size + length > _CHUNK_BYTES):
            pieces.append(items[begin:position])
            begin, size = position, 0
        size += length
    return [*pieces, items[begin:]]


def _serialise(message: Message) -> bytes:
    return message.SerializeToString()
