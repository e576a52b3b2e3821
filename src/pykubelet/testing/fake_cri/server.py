"""The fake runtime behind a real gRPC server on a unix socket."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from google.protobuf.message import Message

from pykubelet.kubelet.actuate.cri.transport import MAX_MESSAGE, StreamCall, UnaryCall
from pykubelet.testing.fake_cri.core import FakeCri
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.router import Router

_Context = grpc.aio.ServicerContext[Message, Message]
MAX_CALLS = 1024
"""Calls of one connection at a time, as of ``pykubelet-criserver``."""


@asynccontextmanager
async def serve(cri: FakeCri, socket: Path) -> AsyncIterator[str]:
    """Serve the fake at a socket; yields the endpoint. The end of the block disconnects the clients."""
    sizes = (("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE))
    server = grpc.aio.server(options=(*sizes, ("grpc.max_concurrent_streams", MAX_CALLS)))
    server.add_generic_rpc_handlers(_handlers(cri.router))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield f"unix://{socket}"
    finally:
        await server.stop(None)


def _handlers(router: Router) -> "list[grpc.GenericRpcHandler[Message, Message]]":
    services: dict[str, dict[str, grpc.RpcMethodHandler[Message, Message]]] = {}
    for call in router.unary_calls:
        services.setdefault(call.service, {})[call.name] = grpc.unary_unary_rpc_method_handler(
            _unary(router, call), call.request.FromString, call.reply.SerializeToString
        )
    for stream in router.stream_calls:
        services.setdefault(stream.service, {})[stream.name] = grpc.unary_stream_rpc_method_handler(
            _stream(router, stream), stream.request.FromString, stream.reply.SerializeToString
        )
    return [grpc.method_handlers_generic_handler(service, methods) for service, methods in services.items()]


def _unary(router: Router, call: UnaryCall[Message, Message]) -> Callable[[Message, _Context], Awaitable[Message]]:
    async def handle(request: Message, context: _Context) -> Message:
        try:
            return await router.call(call, request)
        except RpcError as failure:
            await context.abort(failure.code, failure.details)

    return handle


def _stream(
    router: Router, call: StreamCall[Message, Message]
) -> Callable[[Message, _Context], AsyncGenerator[Message, None]]:
    async def handle(request: Message, context: _Context) -> AsyncGenerator[Message, None]:
        try:
            async for reply in router.stream(call, request):
                yield reply
        except RpcError as failure:
            await context.abort(failure.code, failure.details)

    return handle
