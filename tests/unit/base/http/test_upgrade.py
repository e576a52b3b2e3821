"""Requests to upgrade and their answers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Transient
from pykubelet.base.http.upgrade import UpgradeResponse, request_head, request_upgrade, switching_response

REQUEST = request_head("GET", "/x?y=1", [("Host", "h"), ("Upgrade", "SPDY/3.1")])


@asynccontextmanager
async def _answering(data: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield reader, writer, theirs
    finally:
        writer.transport.abort()
        theirs.close()
        await asyncio.sleep(0)


async def _ask(data: bytes) -> UpgradeResponse:
    async with _answering(data) as (reader, writer, _):
        return await request_upgrade(reader, writer, REQUEST)


async def test_an_upgrade_reads_nothing_of_what_follows() -> None:
    head = switching_response([("Upgrade", "SPDY/3.1"), ("X-Y", "1"), ("X-Y", "2")])
    async with _answering(head + b"frames") as (reader, writer, theirs):
        answer = await request_upgrade(reader, writer, REQUEST)
        assert await reader.read(-1) == b"frames"
        assert theirs.recv(1000) == b"GET /x?y=1 HTTP/1.1\r\nHost: h\r\nUpgrade: SPDY/3.1\r\n\r\n"
    assert (answer.status, answer.reason, answer.head) == (101, "Switching Protocols", head)
    assert (answer.headers["upgrade"], answer.headers["x-y"]) == ("SPDY/3.1", "1")


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone and more", 404, "gone"),
        (b"HTTP/1.0 500 Oh no\r\n\r\nto the end", 500, "to the end"),
        (b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 403, "Forbidden"),
        (b"HTTP/1.1 502 \r\nContent-Length: 0\r\n\r\n", 502, ""),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999, 400, "x" * 16384),
    ],
)
async def test_refused_upgrade_returns_status_and_text(data: bytes, status: int, text: str) -> None:
    answer = await _ask(data)
    assert (answer.status, answer.text) == (status, text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgr",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"x" * 200_000,
    ],
)
async def test_malformed_answer_to_an_upgrade_is_a_transient_error(data: bytes) -> None:
    with pytest.raises(Transient, match="request to upgrade"):
        await _ask(data)


@given(st.binary(max_size=200))
def test_rubbish_is_an_answer_or_an_error(data: bytes) -> None:
    try:
        answer = asyncio.run(_ask(b"HTTP/1.1 " + data))
    except Transient:
        return
    assert 0 <= answer.status <= 999


def test_headers_with_any_bytes_are_passed_on_as_they_came() -> None:
    came = b"caf\xc3\xa9 \xe2\x82\xac \xff"
    head = request_head("POST", "/exec/token", [("X-Stray", came.decode("utf-8", "surrogateescape"))])
    assert head == b"POST /exec/token HTTP/1.1\r\nX-Stray: " + came + b"\r\n\r\n"
