"""One stream of a SPDY connection."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from pykubelet.base.spdy.frames import Data, Frame, Headers, ResetCode, RstStream

_PIECE = 65536


class StreamResetError(ConnectionError):
    """The other side gave the stream up, or the connection has ended."""


class Carrier(Protocol):
    """The connection, as its streams see it."""

    async def send(self, frame: Frame) -> None:
        """Send when there is room. ConnectionError: there is no other side any more."""
        ...

    def post(self, frame: Frame) -> None:
        """Send without waiting; nothing happens when there is no other side any more."""
        ...

    def took(self, size: int) -> None:
        """So many bytes are not held any more."""
        ...

    def forget(self, stream: int) -> None:
        """The stream is closed in both directions."""
        ...


class SpdyStream:
    """Reads, writes, and ends in each direction by itself."""

    def __init__(self, number: int, headers: Headers, carrier: Carrier) -> None:
        self.number = number
        self.headers = headers
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """For streams of ours: done when the other side has taken or refused it."""
        self.held = 0
        """Bytes that came and were not read yet."""
        self.on_broken: Callable[[], None] | None = None
        """Called when the stream ends by a reset, or with its connection."""
        self._carrier = carrier
        self._waiting = bytearray()
        self._deaf = False
        self._news = asyncio.Event()
        self._ended = False
        self._finished = False
        self._reset = False

    def header(self, name: str) -> str:
        """A header's first value; empty when there is none. The other side's headers are kept only until the stream is
        accepted."""
        return self.headers.get(name.lower(), "").partition("\0")[0]

    # -- for its user --------------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """The next bytes, none at the end. StreamResetError: what was still to come is lost."""
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
        """Send; waits while the connection is full. StreamResetError: nobody is there to take it."""
        for at in range(0, len(data), _PIECE):
            if self._finished or self._reset:
                raise StreamResetError("the stream is closed")
            await self._carrier.send(Data(self.number, data[at : at + _PIECE]))

    def finish(self) -> None:
        """Send no more; reading goes on."""
        if not self._finished:
            self._finished = True
            self._carrier.post(Data(self.number, b"", fin=True))
            self._settle()

    def reset(self, code: ResetCode = ResetCode.CANCEL) -> None:
        """Give the stream up in both directions."""
        if not self._reset and not (self._finished and self._ended):
            self._carrier.post(RstStream(self.number, code))
        self._drop()
        self.broken()

    def ignore(self) -> None:
        """Never read: what the other side sends is thrown away."""
        self._deaf = True
        self._drop()

    def _drop(self) -> None:
        self._carrier.took(self.held)
        self.held = 0
        self._waiting.clear()

    # -- for the connection --------------------------------------------------------------------------------------------

    def feed(self, data: bytes, fin: bool) -> None:
        """What came for it."""
        if self._ended or self._reset:
            return
        if data and not self._deaf:
            self._waiting += data
            self.held += len(data)
        self._ended = fin
        self._news.set()
        self._settle()

    def broken(self) -> None:
        """The stream ends here and now. What came before can still be read."""
        self._reset = True
        self._finished = True
        self._news.set()
        if not self.accepted.done():
            self.accepted.set_exception(StreamResetError("the other side refused the stream"))
            self.accepted.exception()  # nobody has to wait for it
        self._carrier.forget(self.number)
        # Called once, and let go of: it may hold the stream.
        on_broken, self.on_broken = self.on_broken, None
        if on_broken is not None:
            on_broken()

    def _settle(self) -> None:
        if self._finished and self._ended:
            self._carrier.forget(self.number)
