"""Responses that no request waits for, as a broken proxy may send them: no later request gets them."""

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from pykubelet.base.http.head_limits import BoundedConnector
from tests.unit.base.http.http_server import answer

_UNREQUESTED = pytest.mark.parametrize(
    "unrequested",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        answer("200 OK", b"old"),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
    ],
    ids=["endless chunks", "incomplete", "complete", "upgrade", "incomplete head"],
)


@_UNREQUESTED
async def test_response_without_a_request_ends_the_connection(unrequested: bytes) -> None:
    read, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer("200 OK", b"new"))
            if not closed.is_set():
                await read.wait()
                writer.write(unrequested)
            await reader.read(1)  # the end of the connection
        closed.set()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    session = aiohttp.ClientSession(connector=BoundedConnector())
    url = "http://{}:{}/".format(*listener.sockets[0].getsockname())
    async with listener, session, asyncio.timeout(10):
        async with session.get(url) as reply:
            assert await reply.read() == b"new"
        read.set()
        await closed.wait()
        async with session.get(url) as reply:
            assert await reply.read() == b"new"


@_UNREQUESTED
async def test_response_that_arrives_with_the_end_of_another_reaches_no_request(unrequested: bytes) -> None:
    begun, first = asyncio.Event(), True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                if not first:
                    writer.write(answer("200 OK", b"next"))
                    continue
                first = False
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nne")
                await begun.wait()
                writer.write(b"w" + unrequested)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    session = aiohttp.ClientSession(connector=BoundedConnector())
    url = "http://{}:{}/".format(*listener.sockets[0].getsockname())
    async with listener, session, asyncio.timeout(10):
        async with session.get(url) as reply:
            begun.set()
            assert await reply.read() == b"new"
        async with session.get(url) as reply:
            assert await reply.read() == b"next"
