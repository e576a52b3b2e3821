"""HTTP connections that become something else (RFC 9110, section 7.8): as the server, and as the client.

aiohttp has no notion of protocols other than WebSocket, so its connections are taken over from it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykubelet.base.errors import Transient
from pykubelet.base.hangup import abort_connection, keep_alive
from pykubelet.base.units import KIB, Seconds

if TYPE_CHECKING:
    from aiohttp import web

_BUFFER: Final = 64 * KIB
_HEAD_LIMIT: Final = 32 * KIB
_BODY_LIMIT: Final = 16 * KIB
_ANSWER: Final[Seconds] = 30.0
_LINGER: Final[Seconds] = 60.0
"""A client that reads slowly has so long to fetch the end of the output."""
SWITCHED: Final = 101


@dataclass(frozen=True, slots=True)
class UpgradeResponse:
    """What a server says to a request to upgrade."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """By their names in lower case; the first of each."""
    head: bytes
    """As it came, with the empty line at its end."""
    body: bytes = b""
    """The beginning of it, when the status is not 101."""

    @property
    def text(self) -> str:
        """Why it refuses."""
        return self.body.decode(errors="replace").strip() or self.reason


@asynccontextmanager
async def taken_over(request: "web.Request") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Streams on the client's connection; aiohttp sees nothing of it until the end of the block, when it is gone.

    All protocols make the client wait for the answer to its handshake, so aiohttp has not read beyond that.
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
    """Close at the end of the block; what is still to be sent gets that long, after an error no time at all."""
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
    """The head of an answer that switches protocols."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{lines}\r\n".encode("latin-1")


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request to upgrade. Values of headers may be a client's, as aiohttp gives them: any bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "surrogateescape")


async def request_upgrade(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> UpgradeResponse:
    """Send a request's head and read the answer's. Nothing is read beyond it when it is 101, the beginning of the body
    otherwise. Transient: it is no answer, or none came in time."""
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
        raise Transient(f"no answer to the request to upgrade: {str(error) or 'it took too long'}") from error
    except (ValueError, asyncio.LimitOverrunError) as error:
        raise Transient(f"the answer to the request to upgrade is no HTTP: {error}") from error


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
        # Nobody needs the rest of a long or chunked explanation.
        return await reader.read(_BODY_LIMIT) if "transfer-encoding" not in headers else b""
    return await reader.readexactly(min(int(length), _BODY_LIMIT))
