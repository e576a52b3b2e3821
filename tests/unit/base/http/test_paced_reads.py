"""Data reaches aiohttp's parser whole, and in pieces between which other tasks run."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pykubelet.base.http.paced_reads import PacedReads
from pykubelet.base.units import KIB
from pykubelet.testing.certificates import Authority
from pykubelet.testing.wait import until

_PIECE = 4 * KIB
_SENT = random.Random(1).randbytes(300 * KIB)


class _Echo:
    """A server that answers with the body of the request, and counts the pieces of what it reads."""

    def __init__(self) -> None:
        self.pieces = 0
        self.steps = 0
        self._server = web.Server(self._answer)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        return web.Response(body=await request.read())

    def protocol(self) -> asyncio.BaseProtocol:
        return PacedReads(self._server(), self._size)

    def _size(self) -> int:
        self.pieces += 1
        return _PIECE

    async def count_steps(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.steps += 1

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
        """Serve within the block; yields the port."""
        listening = await asyncio.get_running_loop().create_server(self.protocol, "127.0.0.1", 0, ssl=tls)
        counting = asyncio.create_task(self.count_steps())
        try:
            async with listening:
                yield listening.sockets[0].getsockname()[1]
        finally:
            counting.cancel()
            await self._server.shutdown(0.1)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_body_arrives_whole_in_pieces_that_leave_other_tasks_their_turn(tmp_path: Path, encrypted: bool) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server", ["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    trust = ssl.create_default_context(cafile=str(authority.ca))
    echo = _Echo()
    async with echo.running(tls if encrypted else None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust if encrypted else None)
        head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(_SENT)}\r\n\r\n"
        writer.write(head.encode() + _SENT)
        answer = await reader.read()
        writer.close()
    assert answer.partition(b"\r\n\r\n")[2] == _SENT
    assert echo.pieces >= len(_SENT) / _PIECE
    # With TLS a second piece may be read in an iteration, after the parser has paused reading.
    assert echo.steps >= len(_SENT) / _PIECE / 4


async def test_handler_learns_of_the_end_of_the_connection() -> None:
    echo = _Echo()
    async with echo.running(None) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        await until(lambda: bool(echo._server.connections))
        writer.close()
        await until(lambda: not echo._server.connections)
