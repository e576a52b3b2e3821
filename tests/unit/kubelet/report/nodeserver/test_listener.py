"""What the listener puts up with, over plain TCP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.report.nodeserver.listener import Limits, Listener, bind


@asynccontextmanager
async def listening(connections: int = 10, first_request: float = 10.0) -> AsyncIterator[tuple[Listener, int]]:
    """A server that says hello, for the block."""
    listener = Listener(Limits(connections, first_request), SystemClock(), None)

    async def hello(request: web.BaseRequest) -> web.Response:
        listener.heard(request.transport)
        return web.Response(text="hello")

    server = web.Server(hello)
    with bind("127.0.0.1", 0) as socket:
        task = asyncio.get_running_loop().create_task(listener.run(server, socket))
        try:
            yield listener, socket.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.wait([task])
            await server.shutdown(0.1)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """What comes, to the end; nothing if the connection was reset."""
    async with asyncio.timeout(5):
        try:
            return await reader.readuntil(b"hello")
        except asyncio.IncompleteReadError as error:
            return error.partial
        except ConnectionError:
            return b""


async def test_a_request_is_answered() -> None:
    async with listening() as (_, port), connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer(reader)).startswith(b"HTTP/1.1 200")


async def test_who_sends_nothing_is_closed() -> None:
    async with listening(first_request=0.05) as (listener, port), connected(port) as (reader, _):
        assert await answer(reader) == b""
        assert listener.connections == 0


async def test_who_sends_a_header_byte_by_byte_is_closed() -> None:
    async with listening(first_request=0.1) as (_, port), connected(port) as (reader, writer):
        waiting = asyncio.get_running_loop().create_task(answer(reader))
        for byte in b"GET / HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaa":
            writer.write(bytes([byte]))
            await asyncio.wait([waiting], timeout=0.01)
            if waiting.done():
                break
        assert await waiting == b""


async def test_who_has_sent_a_request_may_stay() -> None:
    async with listening(first_request=0.1) as (listener, port), connected(port) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200")
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.15)
        assert listener.connections == 1


async def test_there_is_a_limit_to_connections() -> None:
    async with listening(connections=2) as (listener, port), connected(port), connected(port):
        async with asyncio.timeout(5):
            while listener.connections < 2:  # noqa: ASYNC110 - only the kernel knows when they have come
                await asyncio.sleep(0.005)
        async with connected(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await answer(reader) == b""


def test_an_address_that_cannot_be_had_is_named() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(Permanent, match="enableServer"):
        bind("127.0.0.1", taken.getsockname()[1])


def test_the_address_of_everything_takes_ipv6_too() -> None:
    import socket

    with bind("0.0.0.0", 0) as taken:
        port = taken.getsockname()[1]
        families = [(socket.AF_INET, "127.0.0.1")]
        families += [(socket.AF_INET6, "::1")] if socket.has_dualstack_ipv6() else []
        for family, address in families:
            with socket.socket(family) as client:
                client.connect((address, port))
