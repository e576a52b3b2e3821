"""A SPDY client of a runtime's streaming URLs, for tests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.streams.stream_backend import connected

V4 = "v4.channel.k8s.io"
_WHOLE: Seconds = 30.0


@asynccontextmanager
async def spdy(url: str, kinds: Sequence[str], protocol: str = V4) -> AsyncIterator[dict[str, SpdyStream]]:
    """Open a session with streams of these kinds, in this order. TimeoutError: the block takes more than 30 s."""
    async with asyncio.timeout(_WHOLE), connected(url) as backend:
        answer = await backend.spdy(protocol)
        assert answer.status == 101, answer.text
        async with SpdyConnection.over(StreamLink(backend.reader, backend.writer)) as connection:
            yield {kind: await connection.open({"streamtype": kind}) for kind in kinds}


@asynccontextmanager
async def forwarded(url: str) -> AsyncIterator[SpdyConnection]:
    """Open a port-forward session, on which ``forward`` opens connections."""
    async with asyncio.timeout(_WHOLE), connected(url) as backend:
        assert (await backend.spdy("portforward.k8s.io")).status == 101
        async with SpdyConnection.over(StreamLink(backend.reader, backend.writer)) as connection:
            yield connection


async def forward(connection: SpdyConnection, port: int, number: int = 0) -> tuple[SpdyStream, SpdyStream]:
    """Open one connection to a port of the pod; returns its data stream and its error stream."""
    headers = {"port": str(port), "requestid": str(number)}
    error = await connection.open(headers | {"streamtype": "error"})
    return await connection.open(headers | {"streamtype": "data"}), error


async def all_of(stream: SpdyStream) -> bytes:
    """Read until the stream or the connection ends."""
    got = b""
    try:
        while piece := await stream.read():
            got += piece
    except ConnectionError:
        return got
    return got


async def until(stream: SpdyStream, word: bytes) -> bytes:
    """Read until the word was received. ConnectionError: the stream ends before."""
    got = b""
    while word not in got:
        piece = await stream.read()
        if not piece:
            raise ConnectionError(f"the stream ended after {got!r}")
        got += piece
    return got
