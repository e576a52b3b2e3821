"""Responses with malformed or superfluous parts: what counts of them, and what their errors say."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from pykubelet.base.http.head_limits import BoundedConnector
from pykubelet.base.http.http_get import HttpGet, HttpGetFailed, HttpGetter
from tests.unit.base.http.http_server import http_server

_CHUNKED = b"HTTP/1.1 200 OK\r\nX-Secret: secret\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("response", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, for example", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok, for example", 200, b"ok"),
        (b"HTTP/1.0 200 OK\nContent-Length: 2\n\nok, for example", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nok", 200, b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore", 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\nok", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok", 304, b""),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, for example", 200, b"ok"),
    ],
)
async def test_response_counts_although_more_than_it_arrives_with_it(
    response: bytes, status: int, body: bytes, tls: bool
) -> None:
    session = aiohttp.ClientSession(connector=BoundedConnector(ssl=False))
    async with http_server(lambda _: response, tls=tls) as server, session, asyncio.timeout(30):
        for _ in range(2):  # the second one gets a connection of its own
            async with session.get(f"http{'s' if tls else ''}://127.0.0.1:{server.port}/") as reply:
                assert (reply.status, await reply.read()) == (status, body)


async def test_body_behind_the_response_to_head_is_dropped() -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with (
        http_server(lambda _: response) as server,
        asyncio.timeout(30),
        aiohttp.ClientSession(connector=BoundedConnector()) as session,
        session.head(f"http://127.0.0.1:{server.port}/") as reply,
    ):
        assert (reply.status, await reply.read()) == (200, b"")


async def test_head_is_read_wherever_the_network_divides_it() -> None:
    head = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\n"
    for place in range(1, len(head)):
        async with _in_parts([head[:place], head[place:] + b"ok, for example"]) as reply:
            assert (reply.status, await reply.read(), reply.headers["X"]) == (200, b"ok", "y")


async def test_blank_lines_before_a_response_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = ResponseHandler.data_received

    def counted(self: ResponseHandler, data: bytes) -> None:
        parsed.append(len(data))
        parse(self, data)

    monkeypatch.setattr(ResponseHandler, "data_received", counted)
    response = b"\r\n" * 20_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with (
        http_server(lambda _: response) as server,
        asyncio.timeout(30),
        aiohttp.ClientSession(connector=BoundedConnector()) as session,
        session.get(f"http://127.0.0.1:{server.port}/") as reply,
    ):
        assert await reply.read() == b"ok"
    assert sum(parsed) == len(response) and len(parsed) < 1000


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
async def _in_parts(parts: Sequence[bytes]) -> AsyncIterator[aiohttp.ClientResponse]:
    session = aiohttp.ClientSession(connector=BoundedConnector())
    async with _serving(parts) as url, session, asyncio.timeout(30), session.get(url) as reply:
        yield reply


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
