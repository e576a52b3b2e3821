"""TLS connections that a server ends right after an incomplete response, larger than what a reader takes at once."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from pykubelet.base.http.head_limits import BoundedConnector
from tests.unit.base.http.http_server import server_context

_PACKED = gzip.compress(b'{"a": "b"},' * 400_000)
_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
_CHUNK = b"%x\r\n%s\r\n" % (len(_PACKED), _PACKED)


@asynccontextmanager
async def _answering(response: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())
    url = "https://{}:{}/".format(*listener.sockets[0].getsockname())
    session = aiohttp.ClientSession(connector=BoundedConnector(), timeout=aiohttp.ClientTimeout(total=None))
    async with asyncio.timeout(30), listener, session, session.get(url, ssl=False) as reply:
        yield reply


@pytest.mark.parametrize("rest", [b"", b"zz\r\n"], ids=["missing", "malformed"])
async def test_incomplete_response_before_the_end_is_an_error(rest: bytes) -> None:
    async with _answering(_HEAD + _CHUNK + rest) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            # No other task runs meanwhile: the transport has just lost its connection when it is closed.
            async for _ in reply.content.iter_any():
                pass
