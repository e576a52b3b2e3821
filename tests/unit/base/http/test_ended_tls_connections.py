"""TLS connections that a server ends right after a response that is larger than what a reader takes at once."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.streams import StreamReader

from pykubelet.base.http.head_limits import BoundedConnector, _Handler
from tests.unit.base.http.http_server import server_context

_PACKED = gzip.compress(b'{"a": "b"},' * 400_000)
_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
_CHUNK = b"%x\r\n%s\r\n" % (len(_PACKED), _PACKED)


@asynccontextmanager
async def _answering(response: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
    session = aiohttp.ClientSession(connector=BoundedConnector(), timeout=aiohttp.ClientTimeout(total=None))
    async with asyncio.timeout(30), _serving(response) as url, session, session.get(url, ssl=False) as reply:
        yield reply


@asynccontextmanager
async def _serving(response: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())
    async with listener:
        yield "https://{}:{}/".format(*listener.sockets[0].getsockname())


@pytest.mark.parametrize("rest", [b"", b"zz\r\n"], ids=["missing", "malformed"])
async def test_incomplete_response_before_the_end_is_an_error(rest: bytes) -> None:
    async with _answering(_HEAD + _CHUNK + rest) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            # No other task runs meanwhile: the transport has just lost its connection when it is closed.
            async for _ in reply.content.iter_any():
                pass


_ITERATIONS = 200
_TEXT = b"".join(b"%d," % number for number in range(200_000))[:1_200_000]


def _response(body: bytes, framing: str, *headers: str) -> bytes:
    """A response, its body in chunks, with its length, or up to the end of the connection."""
    if framing == "length":
        headers += (f"Content-Length: {len(body)}",)
    elif framing == "chunks":
        headers += ("Transfer-Encoding: chunked",)
        pieces = [body[start : start + 30_000] for start in range(0, len(body), 30_000)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return "\r\n".join(("HTTP/1.1 200 OK", *headers, "", "")).encode() + body


@pytest.mark.parametrize("headers", [["Connection: close"], []], ids=["close", "keep"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("framing", ["chunks", "length", "end"])
async def test_slow_reader_gets_all_that_came_before_the_end(framing: str, packed: bool, headers: list[str]) -> None:
    body, headers = (gzip.compress(_TEXT), [*headers, "Content-Encoding: gzip"]) if packed else (_TEXT, headers)
    found = bytearray()
    async with _answering(_response(body, framing, *headers)) as reply:
        async for piece in reply.content.iter_any():
            found += piece
            for _ in range(_ITERATIONS):  # the end of the connection arrives meanwhile
                await asyncio.sleep(0)
    assert found == _TEXT


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("framing", ["chunks", "length"])
async def test_slow_reader_learns_that_the_end_came_too_early(framing: str, packed: bool) -> None:
    body, headers = (gzip.compress(_TEXT), ["Content-Encoding: gzip"]) if packed else (_TEXT, [])
    async with _answering(_response(body, framing, *headers)[:-100]) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            async for _ in reply.content.iter_any():
                for _ in range(_ITERATIONS):
                    await asyncio.sleep(0)


class _Ended(asyncio.Transport):
    """The transport of a TLS connection that has ended."""

    def __init__(self) -> None:
        super().__init__({"sslcontext": server_context()})

    def is_closing(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass


async def _ended_response(received: bytes) -> tuple[_Handler, StreamReader]:
    """A connection that has ended behind the received bytes, and the body of the response on it."""
    handler = _Handler(asyncio.get_running_loop())
    handler.connection_made(_Ended())
    handler.set_response_params(read_until_eof=True)
    handler.data_received(received)
    handler.connection_lost(None)
    return handler, (await handler.read())[1]


@pytest.mark.parametrize("framing", ["chunks", "length", "end"])
async def test_end_of_a_connection_comes_behind_what_has_arrived(framing: str) -> None:
    handler, body = await _ended_response(_response(_TEXT, framing))
    closed = handler.closed
    async with asyncio.timeout(30):
        assert await body.read() == _TEXT
        if closed is not None:
            await closed
    assert handler.should_close and not handler.is_connected()


async def test_early_end_of_a_connection_comes_behind_what_has_arrived() -> None:
    received = _response(_TEXT, "chunks")[:-100]
    _, body = await _ended_response(received)
    found = b""
    async with asyncio.timeout(30):
        with pytest.raises(aiohttp.ClientPayloadError):
            while True:
                found += await body.readany()
    assert len(found) > len(_TEXT) - 1000


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_response_that_is_abandoned_behind_the_end_frees_its_connection(how: str) -> None:
    handler, body = await _ended_response(_response(_TEXT, "chunks"))
    closed = handler.closed
    assert closed is not None and not closed.done() and await body.read(1) == _TEXT[:1]
    getattr(handler, how)()
    async with asyncio.timeout(30):
        await closed
        with pytest.raises(aiohttp.ClientError):
            await body.read()
