"""Exec and attach over SPDY: the client creates the streams error, stdin, stdout, stderr and resize in any order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from pykubelet.base.http.hangup import wait_until_stuck
from pykubelet.base.http.upgrade import switching_response, taken_over
from pykubelet.base.spdy import Bounds, SpdyConnection, SpdyStream, StreamLink
from pykubelet.base.units import Seconds
from pykubelet.criserver.streaming.status import MAX_SIZE, parse_size, status, text
from pykubelet.criserver.streaming.streaming_types import Channel, Client, EndOfInput, FromClient, Streams

V4: Final = "v4.channel.k8s.io"
V3: Final = "v3.channel.k8s.io"
V2: Final = "v2.channel.k8s.io"
V1: Final = "channel.k8s.io"
PROTOCOLS: Final = (V4, V3, V2, V1)
SPDY: Final = "SPDY/3.1"
CREATION: Final[Seconds] = 30.0
"""Time in which the client must create its streams (the Go kubelet's limit)."""
_NAMES: Final = {
    "stdin": Channel.STDIN,
    "stdout": Channel.STDOUT,
    "stderr": Channel.STDERR,
    "error": Channel.ERROR,
    "resize": Channel.RESIZE,
}


def is_spdy(request: web.Request) -> bool:
    """Whether the client requests an upgrade to SPDY."""
    wanted = request.headers.get("Upgrade", "").lower()
    return SPDY.lower() in wanted and "upgrade" in request.headers.get("Connection", "").lower()


def negotiate(request: web.Request, protocols: tuple[str, ...]) -> str:
    """Choose the client's first protocol that is supported.

    Raises HTTPBadRequest if the client names none, HTTPForbidden if it names only others.
    """
    values = ",".join(request.headers.getall("X-Stream-Protocol-Version", []))
    offered = [word.strip() for word in values.split(",") if word.strip()]
    if not offered:
        raise web.HTTPBadRequest(text="unable to upgrade: the header X-Stream-Protocol-Version is missing")
    for name in offered:
        if name in protocols:
            return name
    raise web.HTTPForbidden(
        text=f"unable to negotiate: client supports {', '.join(offered)}, server accepts {', '.join(protocols)}",
        headers=[("X-Accepted-Stream-Protocol-Versions", name) for name in protocols],
    )


def accepting(protocol: str) -> bytes:
    """The response that switches to SPDY."""
    return switching_response([("Upgrade", SPDY), ("X-Stream-Protocol-Version", protocol)])


async def serve(
    request: web.Request, streams: Streams, run: Callable[[Client], Awaitable[None]], bounds: Bounds | None = None
) -> None:
    """Switch the request's connection to SPDY, and call ``run`` with the client once it has created its streams."""
    protocol = negotiate(request, PROTOCOLS)
    async with taken_over(request) as (reader, writer):
        writer.write(accepting(protocol))
        expected = _ExpectedStreams(streams, protocol)
        async with SpdyConnection.over(StreamLink(reader, writer), expected.accept, bounds) as connection:
            await _either(expected.complete, connection.ended, CREATION)
            if expected.complete.is_set():
                await run(SpdyClient(protocol=protocol, streams=expected.streams, connection=connection))


async def _either(one: asyncio.Event, other: asyncio.Event, within: Seconds) -> None:
    """Return when one of the events is set or the time has passed."""
    tasks = [asyncio.ensure_future(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ExpectedStreams:
    """Collects the streams that one client has to create."""

    def __init__(self, wanted: Streams, protocol: str) -> None:
        asked = {Channel.STDIN: wanted.stdin, Channel.STDOUT: wanted.stdout, Channel.STDERR: wanted.stderr}
        asked |= {Channel.ERROR: True, Channel.RESIZE: wanted.terminal and protocol in (V3, V4)}
        self._missing = {channel for channel, given in asked.items() if given}
        self.streams: dict[Channel, SpdyStream] = {}
        self.complete = asyncio.Event()

    def accept(self, stream: SpdyStream) -> bool:
        """Accept a stream if it is expected."""
        channel = _NAMES.get(stream.header("streamtype").lower())
        if channel is None or channel not in self._missing:
            return False
        self._missing.remove(channel)
        self.streams[channel] = stream
        if channel not in (Channel.STDIN, Channel.RESIZE):
            stream.ignore()
        if not self._missing:
            self.complete.set()
        return True


class SpdyClient:
    """A ``Client`` over a SPDY connection."""

    def __init__(self, *, protocol: str, streams: dict[Channel, SpdyStream], connection: SpdyConnection) -> None:
        self._textual = protocol != V4
        self._streams = streams
        self._connection = connection
        self._received = 0

    async def receive(self) -> AsyncIterator[FromClient]:
        """Yield what the client sends, until it has gone."""
        queue: asyncio.Queue[FromClient | None] = asyncio.Queue(1)
        sources = [self._until_gone(queue)]
        if Channel.STDIN in self._streams:
            sources.append(_input(self._streams[Channel.STDIN], queue))
        if Channel.RESIZE in self._streams:
            sources.append(_sizes(self._streams[Channel.RESIZE], queue))
        tasks = [asyncio.ensure_future(source) for source in sources]
        try:
            while (what := await queue.get()) is not None:
                self._received += 1
                yield what
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def gone(self) -> None:
        """Return when the client has gone, even if data from it is still unread."""
        await wait_until_stuck(lambda: self._received, self._connection.ended.is_set)

    async def send(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._streams[channel].write(data)

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Send the exit code or the failure, and close the streams."""
        for channel in (Channel.STDOUT, Channel.STDERR):
            if channel in self._streams:
                self._streams[channel].finish()
        error = self._streams[Channel.ERROR]
        with suppress(ConnectionError):
            await error.write((text if self._textual else status)(exit_code, failure))
        error.finish()

    async def _until_gone(self, queue: "asyncio.Queue[FromClient | None]") -> None:
        await self._connection.ended.wait()
        await queue.put(None)


async def _input(stream: SpdyStream, queue: "asyncio.Queue[FromClient | None]") -> None:
    with suppress(ConnectionError):
        while data := await stream.read():
            await queue.put(data)
    await queue.put(EndOfInput())


async def _sizes(stream: SpdyStream, queue: "asyncio.Queue[FromClient | None]") -> None:
    """Queue terminal sizes: JSON documents one after the other; each ends with a brace and contains no other."""
    waiting = b""
    with suppress(ConnectionError):
        while data := await stream.read():
            # Of several sizes that arrive together only the last counts.
            complete, end, waiting = (waiting + data).rpartition(b"}")
            waiting = waiting[-MAX_SIZE:]
            size = parse_size(complete.rpartition(b"}")[2] + end)
            if size is not None:
                await queue.put(size)
