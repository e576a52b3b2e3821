"""A stream of a SPDY connection."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from pykubelet.base.spdy.frames import Data, Frame, Headers, ResetCode, RstStream

_PIECE = 65536


class StreamResetError(ConnectionError):
    """The peer has reset the stream, or the connection has ended."""


class Carrier(Protocol):
    """The connection, as its streams use it."""

    async def send(self, frame: Frame) -> None:
        """Queue a frame, waiting while the queue is full. Raises ConnectionError if the connection has ended."""
        ...

    def post(self, frame: Frame) -> None:
        """Queue a frame without waiting; do nothing if the connection has ended."""
        ...

    def took(self, size: int) -> None:
        """Count so many bytes as read or dropped."""
        ...

    def forget(self, stream: int) -> None:
        """Remove a stream that is closed in both directions."""
        ...


class SpdyStream:
    """One bidirectional stream; each direction can end by itself."""

    def __init__(self, number: int, headers: Headers, *, carrier: Carrier) -> None:
        self.number = number
        self.headers = headers
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """For streams opened here: done when the peer has accepted or refused the stream."""
        self.held = 0
        """Bytes that were received and not read yet."""
        self.on_broken: Callable[[], None] | None = None
        """Callback for the end of the stream by a reset or with its connection."""
        self._carrier = carrier
        self._waiting = bytearray()
        self._ignored = False
        self._news = asyncio.Event()
        self._ended = False
        self._finished = False
        self._reset = False

    def header(self, name: str) -> str:
        """The first value of a header; empty if it is missing.

        The peer's headers are kept only until the stream is accepted.
        """
        return self.headers.get(name.lower(), "").partition("\0")[0]

    # -- for its user --------------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Read the next bytes, none at the end. Raises StreamResetError if the rest is lost."""
        while not self._waiting:
            if self._ended:
                return b""
            if self._reset:
                raise StreamResetError("the stream was reset")
            self._news.clear()
            await self._news.wait()
        data = bytes(self._waiting)
        self._drop()
        return data

    async def write(self, data: bytes) -> None:
        """Send, waiting while the connection's queue is full. Raises StreamResetError if the stream is closed."""
        for at in range(0, len(data), _PIECE):
            if self._finished or self._reset:
                raise StreamResetError("the stream is closed")
            await self._carrier.send(Data(self.number, data[at : at + _PIECE]))

    def finish(self) -> None:
        """Close the sending direction; reading continues."""
        if not self._finished:
            self._finished = True
            self._carrier.post(Data(self.number, b"", fin=True))
            self._settle()

    def reset(self, code: ResetCode = ResetCode.CANCEL) -> None:
        """Reset the stream in both directions."""
        if not self._reset and not (self._finished and self._ended):
            self._carrier.post(RstStream(self.number, code))
        self._drop()
        self.broken()

    def ignore(self) -> None:
        """Drop all data that the peer sends; the stream will never be read."""
        self._ignored = True
        self._drop()

    def _drop(self) -> None:
        self._carrier.took(self.held)
        self.held = 0
        self._waiting.clear()

    # -- for the connection --------------------------------------------------------------------------------------------

    def feed(self, data: bytes, fin: bool) -> None:
        """Take received data; ``fin``: it is the last."""
        if self._ended or self._reset:
            return
        if data and not self._ignored:
            self._waiting += data
            self.held += len(data)
        self._ended = fin
        self._news.set()
        self._settle()

    def broken(self) -> None:
        """End the stream at once. Data received before can still be read."""
        self._reset = True
        self._finished = True
        self._news.set()
        if not self.accepted.done():
            self.accepted.set_exception(StreamResetError("the other side refused the stream"))
            self.accepted.exception()  # marks it as retrieved: there may be no waiting caller
        self._carrier.forget(self.number)
        # Called once and dropped: it may hold a reference to the stream.
        on_broken, self.on_broken = self.on_broken, None
        if on_broken is not None:
            on_broken()

    def _settle(self) -> None:
        if self._finished and self._ended:
            self._carrier.forget(self.number)
