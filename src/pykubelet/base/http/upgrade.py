"""HTTP upgrades to another protocol (RFC 9110, section 7.8), as server and as client.

aiohttp supports no protocol other than WebSocket, so connections are taken over from it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet.base.errors import Transient
from pykubelet.base.http.hangup import abort_connection, keep_alive
from pykubelet.base.units import KIB, Seconds

if TYPE_CHECKING:
    from aiohttp import web

_BUFFER: Final = 64 * KIB
_HEAD_LIMIT: Final = 32 * KIB
_BODY_LIMIT: Final = 16 * KIB
_ANSWER: Final[Seconds] = 30.0
_LINGER: Final[Seconds] = 60.0
"""Time that a slow client has to read the end of the output."""
SWITCHED: Final = 101


class UpgradeResponse(Struct, frozen=True):
    """The response of a server to an upgrade request."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Headers by name in lower case; only the first of each name."""
    head: bytes
    """The head as received, with the empty line at its end."""
    body: bytes = b""
    """The first bytes of the body, if the status is not 101."""

    @property
    def text(self) -> str:
        """The server's reason for a refusal."""
        return self.body.decode(errors="replace").strip() or self.reason


@asynccontextmanager
async def taken_over(request: "web.Request") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Take the client's connection over from aiohttp as a pair of streams; it is closed at the end of the block.

    In all protocols the client waits for the response to its handshake, so aiohttp has not read beyond the request.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    keep_alive(transport)
    former = request.protocol
    reader = asyncio.StreamReader(limit=_BUFFER)
    protocol = asyncio.StreamReaderProtocol(reader)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    transport.resume_reading()
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    try:
        async with closing(writer, within=_LINGER):
            yield reader, writer
    finally:
        former.connection_lost(None)


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter, within: Seconds) -> AsyncIterator[None]:
    """Close the writer at the end of the block: unsent data gets ``within`` seconds; after an error it is dropped."""
    try:
        yield
        writer.close()
        async with asyncio.timeout(within):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        abort_connection(writer)
    except BaseException:
        abort_connection(writer)
        raise


def switching_response(headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a response that switches protocols (101)."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{lines}\r\n".encode("latin-1")


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of an upgrade request. Header values may come from a client through aiohttp: any bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "surrogateescape")


async def request_upgrade(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> UpgradeResponse:
    """Send the head of an upgrade request and read the response.

    Of a response with status 101 only the head is read, of others the beginning of the body too. Raises Transient if
    the response is malformed or does not come in time.
    """
    try:
        async with asyncio.timeout(_ANSWER):
            writer.write(request)
            await writer.drain()
            answer = _parse(await _head(reader))
            if answer.status == SWITCHED:
                return answer
            body = await _body(reader, answer.headers)
            return UpgradeResponse(answer.status, answer.reason, answer.headers, answer.head, body)
    except (OSError, TimeoutError, EOFError) as error:
        raise Transient(f"no answer to the request to upgrade: {str(error) or 'timed out'}") from error
    except (ValueError, asyncio.LimitOverrunError) as error:
        raise Transient(f"the answer to the request to upgrade is not HTTP: {error}") from error


async def _head(reader: asyncio.StreamReader) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await reader.readuntil(b"\r\n")
        if len(head) > _HEAD_LIMIT:
            raise ValueError("its head is too long")
    return head


def _parse(head: bytes) -> UpgradeResponse:
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not status.isdecimal() or len(status) != 3:
        raise ValueError(f"it begins with {lines[0][:50]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return UpgradeResponse(int(status), reason, headers, head)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    length = headers.get("content-length", "")
    if not length.isdecimal():
        # No caller needs the rest of a long or chunked explanation.
        return await reader.read(_BODY_LIMIT) if "transfer-encoding" not in headers else b""
    return await reader.readexactly(min(int(length), _BODY_LIMIT))
