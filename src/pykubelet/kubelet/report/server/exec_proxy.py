"""exec and attach: the client's upgraded connection joined to the runtime's streaming server.

After the handshake no byte is looked at, so every protocol that client and runtime agree on works: SPDY/3.1 and the
WebSocket protocols of Kubernetes. The client's connection is taken over from aiohttp, which has no notion of that.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from pykubelet.base.errors import Invalid, Permanent, Transient

_CONNECT_SECONDS: Final = 10.0
_BUFFER: Final = 64 * 1024
_LINGER_SECONDS: Final = 60.0
"""A client that reads slowly has so long to fetch the end of the output."""
_OWN_HEADERS: Final = frozenset({b"host", b"authorization", b"cookie"})
"""Headers that concern us and not the runtime."""


async def proxy_upgrade(request: web.Request, url: str) -> web.StreamResponse:
    """Join an upgrade request to the runtime's URL until either side ends.

    Invalid: the request is no upgrade. Permanent: the URL is of a kind that is not supported. Transient: the streaming
    server does not answer.
    """
    _check_upgrade(request)
    target = _target(url)
    async with _connected(target) as (reader, writer):
        writer.write(_handshake(request, target))
        async with _taken_over(request) as (client_reader, client_writer), asyncio.TaskGroup() as group:
            pumps = [
                group.create_task(_pump(client_reader, writer), name="stream-to-runtime"),
                group.create_task(_pump(reader, client_writer), name="stream-to-client"),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
    # The connection is gone; aiohttp knows and does not try to send this.
    return web.Response()


def _check_upgrade(request: web.Request) -> None:
    tokens = {token.strip().lower() for token in request.headers.get("Connection", "").split(",")}
    if "upgrade" not in tokens or not request.headers.get("Upgrade"):
        raise Invalid("unable to upgrade: the request lacks the headers Connection: Upgrade and Upgrade")
    if request.can_read_body:
        raise Invalid("unable to upgrade: the request has a body")


def _target(url: str) -> SplitResult:
    target = urlsplit(url)
    if target.scheme != "http" or not target.hostname:
        raise Permanent(f"the runtime's streaming URL begins with {target.scheme}://; only http:// is supported")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise Permanent("the runtime's streaming URL contains white space")
    return target


def _handshake(request: web.Request, target: SplitResult) -> bytes:
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    lines = [f"{request.method} {path} HTTP/1.1\r\nHost: {target.netloc}\r\n".encode()]
    lines += [name + b": " + value + b"\r\n" for name, value in _passed_on(request.raw_headers)]
    return b"".join(lines) + b"\r\n"


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    return ((name, value) for name, value in headers if name.lower() not in _OWN_HEADERS)


@asynccontextmanager
async def _connected(target: SplitResult) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(target.hostname, target.port or 80, limit=_BUFFER)
    except (OSError, TimeoutError) as error:
        raise Transient(f"the runtime's streaming server at {target.netloc} does not answer: {error}") from error
    async with _closing(writer, within=1.0):
        yield reader, writer


@asynccontextmanager
async def _taken_over(request: web.Request) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Streams on the client's connection; aiohttp sees nothing of it until the end of the block, when it is gone.

    All protocols make the client wait for the answer to its handshake, so aiohttp has not read beyond that.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    former = request.protocol
    reader = asyncio.StreamReader(limit=_BUFFER)
    protocol = asyncio.StreamReaderProtocol(reader)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    transport.resume_reading()
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    try:
        async with _closing(writer, within=_LINGER_SECONDS):
            yield reader, writer
    finally:
        former.connection_lost(None)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_BUFFER):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter, within: float) -> AsyncIterator[None]:
    """Close at the end of the block; what is still to be sent gets that many seconds, after an error none."""
    try:
        yield
        writer.close()
        async with asyncio.timeout(within):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
    except BaseException:
        writer.transport.abort()
        raise
