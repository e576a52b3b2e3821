"""A proxy that makes a runtime appear to have no events: it forwards CRI calls and hides the event streams.

``python -m benchmarks.no_events LISTEN UPSTREAM``, both paths of unix sockets. It runs as a separate process, so
that its CPU time is not counted as the agent's.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import grpc

_HIDDEN = ("GetContainerEvents", "Subscribe")
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
)

_Context = grpc.aio.ServicerContext[bytes, bytes]


if TYPE_CHECKING:
    _Handler = grpc.GenericRpcHandler[bytes, bytes]
else:
    _Handler = grpc.GenericRpcHandler  # generic in its stubs only


def _bytes(message: bytes) -> bytes:
    return message


class _ForwardingHandler(_Handler):
    """Forwards every call to the upstream as bytes; hidden calls are unimplemented."""

    def __init__(self, upstream: grpc.aio.Channel) -> None:
        self._upstream = upstream

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        method = handler_call_details.method
        name = method.rpartition("/")[2]
        if name in _HIDDEN or name.startswith("Stream"):
            return None
        return grpc.unary_unary_rpc_method_handler(self._call(method))

    def _call(self, method: str) -> Callable[[bytes, _Context], Awaitable[bytes]]:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._upstream.unary_unary(method, _bytes, _bytes)

        async def handle(request: bytes, context: _Context) -> bytes:
            try:
                return await call(request, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")

        return handle


async def serve(listen: str, upstream: str) -> None:
    """Forward calls until cancelled."""
    async with grpc.aio.insecure_channel(f"unix:{upstream}", options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers([_ForwardingHandler(channel)])
        server.add_insecure_port(f"unix:{listen}")
        await server.start()
        try:
            await server.wait_for_termination()
        finally:
            await server.stop(None)


async def _main(listen: str, upstream: str) -> None:
    work = asyncio.ensure_future(serve(listen, upstream))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:3]))
