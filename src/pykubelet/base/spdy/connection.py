"""A SPDY connection: reads frames, passes them to its streams, and sends the frames of its streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self, assert_never

from msgspec import Struct, field

from pykubelet.base.http import hangup
from pykubelet.base.spdy.codec import Decoder, Encoder, Limits, ProtocolError
from pykubelet.base.spdy.frames import (
    Data,
    Frame,
    GoAway,
    GoAwayCode,
    Headers,
    HeadersFrame,
    Ping,
    ResetCode,
    RstStream,
    SettingsFrame,
    SynReply,
    SynStream,
    WindowUpdate,
)
from pykubelet.base.spdy.link import Link
from pykubelet.base.spdy.stream import SpdyStream, StreamResetError
from pykubelet.base.units import KIB, MIB, Seconds

_log = logging.getLogger(__name__)
_AT_ONCE = 64
"""Frames that are handled before the event loop runs other tasks: a peer can send thousands at once."""
_NEW_STREAM = 16
"""Frames as which one counts that opens a stream: what is behind the stream is created, too."""


class Bounds(Struct, frozen=True):
    """Resource limits of one connection."""

    streams: int = 1000
    """Open streams that the peer has created."""
    held: int = 512 * KIB
    """Unread bytes of one stream; beyond that, nothing more is read from the connection."""
    held_total: int = 4 * MIB
    """Unread bytes of all streams, including those that have ended."""
    queued: int = 256 * KIB
    """Bytes to be sent; beyond that, writers wait."""
    queued_at_most: int = 4 * MIB
    """Bytes to be sent to a peer that does not read replies; beyond that, the connection is closed."""
    idle: Seconds = 4 * 3600.0
    """Time without a byte in either direction after which the connection ends (the Go kubelet's limit)."""
    reply: Seconds = 30.0
    """Time in which the peer must accept or refuse a stream."""
    flush: Seconds = 60.0
    """Time that a slow peer has at the end to read the queued bytes."""
    linger: Seconds = 2.0
    """Time that the peer has after that to close, so that the kernel does not drop data that the peer has not read."""
    limits: Limits = field(default_factory=Limits)


class SpdyConnection:
    """One end of a connection. Created by the context manager ``over``, and closed at its end."""

    def __init__(self, link: Link, accept: Callable[[SpdyStream], bool] | None, *, bounds: Bounds) -> None:
        self._link = link
        self._accept = accept
        self._bounds = bounds
        self._server = accept is not None
        self._encoder = Encoder()
        self._decoder = Decoder(bounds.limits)
        self._streams: dict[int, SpdyStream] = {}
        self._next = 2 if self._server else 1
        self._last = 0
        self._held = 0
        self._read_on = asyncio.Event()
        self._queue = bytearray()
        self._queued = 0
        """Bytes that are queued or being written."""
        self._to_send = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self._active = asyncio.get_running_loop().time()
        self.ended = asyncio.Event()
        """Set when the peer has gone or has sent GOAWAY."""

    @classmethod
    @asynccontextmanager
    async def over(
        cls, link: Link, accept: Callable[[SpdyStream], bool] | None = None, bounds: Bounds | None = None
    ) -> AsyncIterator[Self]:
        """Open a connection over a link for the time of the block.

        With ``accept`` this end is the server: ``accept`` is called with each new stream and returns whether to accept
        it. At the end of the block, data already written is still delivered.
        """
        connection = cls(link, accept, bounds=bounds or Bounds())
        reading = asyncio.create_task(connection._read(), name="spdy-read")
        writing = asyncio.create_task(connection._write(), name="spdy-write")
        try:
            yield connection
            await connection._close(reading, writing)
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            connection._break()
            # Breaks reference cycles: the streams and their buffers would stay until the garbage collector runs.
            connection._accept = None
            connection._streams.clear()

    async def open(self, headers: Headers) -> SpdyStream:
        """Open a stream. StreamResetError: it was refused or the connection has ended. TimeoutError: no reply."""
        if self.ended.is_set():
            raise StreamResetError("the connection has ended")
        stream = SpdyStream(self._next, headers, carrier=self)
        self._next += 2
        self._streams[stream.number] = stream
        await self.send(SynStream(stream.number, headers))
        try:
            async with asyncio.timeout(self._bounds.reply):
                await asyncio.shield(stream.accepted)
        except TimeoutError:
            stream.reset()
            raise
        return stream

    # -- for its streams -----------------------------------------------------------------------------------------------

    async def send(self, frame: Frame) -> None:
        """Queue a frame, waiting while the queue is full. StreamResetError: the connection has ended."""
        while not self._room.is_set() and not self._closing:
            await self._room.wait()
        if self._closing:
            raise StreamResetError("the connection has ended")
        self.post(frame)

    def post(self, frame: Frame) -> None:
        """Queue a frame without waiting; do nothing if the connection has ended."""
        if self._closing:
            return
        data = self._encoder.encode(frame)
        self._queue += data
        self._queued += len(data)
        self._to_send.set()
        if self._queued > self._bounds.queued:
            self._room.clear()
        if self._queued > self._bounds.queued_at_most:
            _log.warning("streaming peer does not read replies: closing the connection")
            self._break()

    def took(self, size: int) -> None:
        """Count so many bytes as read or dropped."""
        self._held -= size
        self._read_on.set()

    def forget(self, stream: int) -> None:
        """Remove a stream that is closed in both directions."""
        self._streams.pop(stream, None)
        self._read_on.set()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            handled = 0
            while data := await self._receive():
                for frame in self._decoder.frames(data):
                    self._handle(frame)
                    await self._wait_for_readers(frame)
                    handled += _NEW_STREAM if isinstance(frame, SynStream) else 1
                    if handled >= _AT_ONCE:
                        handled = 0
                        await asyncio.sleep(0)
        except ProtocolError as error:
            _log.debug("streaming peer violated the protocol", extra={"error": str(error)})
            self.post(GoAway(self._last, GoAwayCode.PROTOCOL_ERROR))
        except (OSError, TimeoutError) as error:
            _log.debug("streaming connection lost", extra={"error": str(error)})
        finally:
            self._lost()

    async def _receive(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._active + self._bounds.idle):
                    data = await self._link.read()
            except TimeoutError:
                if loop.time() >= self._active + self._bounds.idle:
                    raise
                continue
            self._active = loop.time()
            return data

    async def _wait_for_readers(self, frame: Frame) -> None:
        """Wait while too much received data is unread.

        One stream that is not read stops all others: the peers know no other flow control. Raises
        ConnectionResetError if the peer goes meanwhile.
        """
        if not isinstance(frame, Data):
            return
        bounds = self._bounds
        while True:
            stream = self._streams.get(frame.stream)
            held = stream.held if stream else 0
            if held <= bounds.held and self._held <= bounds.held_total:
                return
            self._read_on.clear()
            try:
                async with asyncio.timeout(hangup.STUCK):
                    await self._read_on.wait()
            except TimeoutError:
                if self._link.hung_up():
                    raise ConnectionResetError("the peer has gone, and its data is not read") from None

    def _handle(self, frame: Frame) -> None:
        match frame:
            case Data():
                self._data(frame)
            case SynStream():
                self._syn(frame)
            case SynReply():
                self._reply(frame)
            case HeadersFrame():
                if (found := self._streams.get(frame.stream)) and frame.fin:
                    found.feed(b"", True)
            case RstStream():
                if found := self._streams.get(frame.stream):
                    found.broken()
            case Ping():
                if frame.id % 2 == self._server:
                    self.post(frame)
            case GoAway():
                self.ended.set()
            case SettingsFrame() | WindowUpdate():
                pass
            case _:
                assert_never(frame)

    def _data(self, frame: Data) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            # The stream has just been closed here, or it never existed.
            if frame.stream > self._last and frame.stream % 2 == self._server:
                self.post(RstStream(frame.stream, ResetCode.INVALID_STREAM))
            return
        before = stream.held
        stream.feed(frame.data, frame.fin)
        self._held += stream.held - before

    def _syn(self, frame: SynStream) -> None:
        if frame.stream % 2 != self._server or frame.stream <= self._last:
            self.post(RstStream(frame.stream, ResetCode.PROTOCOL_ERROR))
            return
        self._last = frame.stream
        if self._accept is None or self._closing or len(self._streams) >= self._bounds.streams:
            self.post(RstStream(frame.stream, ResetCode.REFUSED_STREAM))
            return
        stream = SpdyStream(frame.stream, frame.headers, carrier=self)
        self._streams[stream.number] = stream
        if frame.fin:
            stream.feed(b"", True)
        accepted = self._accept(stream)
        # The headers are evaluated now. If they were kept, they would be the largest part of a stream.
        stream.headers = {}
        if not accepted:
            stream.reset(ResetCode.REFUSED_STREAM)
            return
        self.post(SynReply(stream.number))

    def _reply(self, frame: SynReply) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None or frame.stream % 2 == self._server:
            return
        if not stream.accepted.done():
            stream.accepted.set_result(None)
        if frame.fin:
            stream.feed(b"", True)

    # -- writing and the end -------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                await self._to_send.wait()
                # Frames are written together, because a small write costs as much as a large one.
                data = bytes(self._queue)
                self._queue.clear()
                self._to_send.clear()
                await self._link.write(data)
                self._active = asyncio.get_running_loop().time()
                self._queued -= len(data)
                if self._queued <= self._bounds.queued:
                    self._room.set()
        except OSError as error:
            _log.debug("streaming connection lost", extra={"error": str(error)})
        finally:
            self._break()

    async def _close(self, reading: "asyncio.Task[None]", writing: "asyncio.Task[None]") -> None:
        for stream in list(self._streams.values()):
            stream.reset()
        self.post(GoAway(self._last))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.flush):
                while self._queued and not writing.done():
                    self._room.clear()
                    await self._room.wait()
        self._closing = True
        if not writing.done() and not self._queued:
            with suppress(OSError):
                await self._link.end()
            await asyncio.wait({reading}, timeout=self._bounds.linger)

    def _lost(self) -> None:
        """End all streams: the peer sends nothing more. Queued data may still reach it."""
        self.ended.set()
        for stream in list(self._streams.values()):
            stream.broken()

    def _break(self) -> None:
        self._closing = True
        self._lost()
        self._room.set()
