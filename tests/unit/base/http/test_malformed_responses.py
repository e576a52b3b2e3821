"""Malformed responses: what their errors say."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from pykubelet.base.http.http_get import HttpGet, HttpGetFailed, HttpGetter

_CHUNKED = b"HTTP/1.1 200 OK\r\nX-Secret: secret\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 200 OK\r\nX-Secret: secret\r\nX: "],
        [b"HTTP/1.1 200 OK\r\nX-Secret: secret\0\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: secret " + b"x" * 9000 + b"\r\n\r\n"],
        [b"secret secret\r\n\r\n"],
        [_CHUNKED + b"6\r\nsecret, secret"],
        [_CHUNKED, b"6\r\nsecret, secret"],
        [_CHUNKED, b"secret\r\n"],
        [_CHUNKED + b"6\r\nsecret\r\n", b"0\r\nsecret\r\n\r\n"],
    ],
    ids=["part of a head", "NUL", "long line", "no HTTP", "same packet", "end of a chunk", "length", "trailer"],
)
async def test_failed_request_tells_nothing_of_the_response(parts: Sequence[bytes]) -> None:
    getter = HttpGetter()
    try:
        async with _serving(parts) as url, asyncio.timeout(30):
            with pytest.raises(HttpGetFailed) as caught:
                await getter.get(HttpGet(url), None)
    finally:
        await getter.close()
    assert "secret" not in str(caught.value).lower() and len(str(caught.value)) < 200


@asynccontextmanager
async def _serving(parts: Sequence[bytes]) -> AsyncIterator[str]:
    """The URL of a server that sends the parts in packets of their own, and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                for _ in range(5):  # the client reads it meanwhile
                    await asyncio.sleep(0)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield "http://{}:{}/".format(*listener.sockets[0].getsockname())
