"""Limits for HTTP responses, which aiohttp lacks: for their head, and for what is sent with their body.

aiohttp accepts any number of informational responses (RFC 9110, section 15.2), thousands from each chunk that it
receives, and its read timeout stops at the first of them. A container behind a probe, or a registry, could keep the
event loop busy in this way. Here a response may begin with a few informational ones and its head has a bounded size;
beyond that the connection is closed with an error. So it is if much arrives after the head that is no body: for aiohttp
the extension of a chunk, and trailers, may have no end. Every error reaches the reader of the body: aiohttp reports
none of a malformed chunk after the head, and stops its read timeout, so that the reader would wait for ever, for
example for a watch that a broken proxy garbles. A connection that brings a response before its request is closed, too:
aiohttp would take it for the response to the next one, and no timeout of that one, nor the connection's end, would
reach the reader of its body. A response counts although more than it arrives with it, as from a server that counts too
few bytes of its body: aiohttp would drop it, or not, depending on how the network divides the data. No error has a
part of the response in its text, nor headers of the request: it may be shown to users who may see neither. The end of
a TLS connection comes after the data before it, although its reader is slow: aiohttp would drop what was not parsed
yet, and end the response with an error. A TLS connection that is abandoned in the middle of a response is closed at
once; asyncio would wait 30 s for the peer's close_notify.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

from pykubelet.base.units import KIB

INFORMATIONAL: Final = 8
"""Informational responses accepted before the final one. Servers send one or two."""
HEAD: Final = 64 * KIB
"""Bytes accepted up to the end of the final response's headers."""
_PIECE: Final = 2 * KIB
"""Bytes that are parsed at a time until then."""
_PER_BYTE: Final = 32
"""Bytes accepted for each one of the body, after as many as of a head. A chunk of one byte takes six."""

_BLANK_LINE: Final = re.compile(rb"(?:^|\n)\r?\n")
_BLANK_LINES: Final = 64
"""Blank lines, each of which may end the head, behind which the data is divided, until the final response begins."""

_UNREQUESTED: Final = "a response without a request"
_MALFORMED: Final = "the answer is not valid HTTP"


class BoundedConnector(aiohttp.TCPConnector):
    """A connector for sessions with servers that may be hostile. It takes the arguments of ``TCPConnector``."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # This factory creates the protocol of each connection; aiohttp has no public way to choose it.
        make: Callable[..., ResponseHandler] = _Handler
        self._factory = partial(make, loop=asyncio.get_running_loop())


class _Handler(ResponseHandler):
    """Reads the responses on one connection and enforces the limits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answered = False
        self._informational = 0
        self._head = 0
        self._blank_lines = 0
        self._received = 0
        self._body: StreamReader | None = None
        self._lost = False

    def set_response_params(self, **params: Any) -> None:
        """Reset the limits: a new request was sent, and its response begins."""
        self._answered = False
        self._informational = 0
        self._head = 0
        self._blank_lines = 0
        self._received = 0
        self._body = None
        super().set_response_params(**params)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the response; if its reader has not yet taken all that came before, after that.

        With TLS the end of a connection that is not being read arrives behind data, which aiohttp would drop.
        """
        body = self._body
        waits = self._reading_paused and self._exception is None and body is not None and not body.is_eof()
        if exc is None and waits and self.transport is not None:
            self._lost = self._should_close = True
        else:
            super().connection_lost(exc)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Take what has arrived up to the next pause, and behind all of it the end of the connection."""
        super().resume_reading(resume_parser)
        self._end_soon()

    def abort(self) -> None:
        """Close the connection at once."""
        super().abort()
        self._end_soon()

    def close(self) -> None:
        """Close the connection. With TLS abort it: an orderly close would keep it open until the peer answers."""
        if self.transport is not None and _has_tls(self.transport):
            self.abort()
        else:
            super().close()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; until the final response begins, in small pieces that are counted."""
        if data and self._is_idle():
            self._refuse(_UNREQUESTED)
            return
        rest = memoryview(data)
        while rest and not self._answered and self._parser is not None and self._exception is None:
            piece = self._divided(bytes(rest[:_PIECE]))
            rest = rest[len(piece) :]
            self._head += len(piece)
            super().data_received(piece)
            if not self._answered:
                self._go_on()
        if rest and self._is_idle():
            self._refuse(_UNREQUESTED)
        elif self._exception is None and (rest or not data):
            super().data_received(bytes(rest))
            self._received += len(rest)
            if self._body is not None and self._received > HEAD + _PER_BYTE * self._body.total_bytes:
                self._refuse(f"more than {HEAD} bytes without a body")

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Handle a response whose headers are complete. Informational ones are dropped: no caller needs them.

        So is a second one, which arrived with the end of the first: that may have put the connection into the pool.
        """
        if self._answered:
            self._refuse(_UNREQUESTED)
            return
        code = data[0].code
        if 100 <= code < 200 and code != 101:
            self._informational += 1
            return
        self._answered = True
        self._body = data[1]
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *exc_cause: BaseException) -> None:
        """Fail the connection, and the body that is being read if it is not complete.

        The error becomes one that callers of a client expect, without what the server has sent: aiohttp's errors have
        the data that cannot be parsed, or an incomplete head.
        """
        if not isinstance(exc, aiohttp.ClientError):
            exc = aiohttp.ClientPayloadError(_MALFORMED)
        elif isinstance(exc, aiohttp.ServerDisconnectedError) and not isinstance(exc.message, str):
            exc = aiohttp.ServerDisconnectedError()
        super().set_exception(exc, *exc_cause)
        body = self._body
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(exc)

    def _end_soon(self) -> None:
        """Report the loss of the connection later: the caller may be the parser, in the middle of data."""
        if self._lost and self._has_no_more():
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self._lost and self._has_no_more():
            self._lost = False
            super().connection_lost(None)

    def _has_no_more(self) -> bool:
        """Whether the response has been parsed as far as it has arrived, or was abandoned."""
        return not self._reading_paused or self.transport is None

    def _divided(self, piece: bytes) -> bytes:
        """The piece, or its part that may be the end of a head.

        The parser drops a head that is complete if what follows in the same piece is malformed.
        """
        found = _BLANK_LINE.search(piece)
        if found is None or found.end() == len(piece) or self._blank_lines == _BLANK_LINES:
            return piece
        self._blank_lines += 1
        return piece[: found.end()]

    def _is_idle(self) -> bool:
        """Whether the response is complete, and the connection was not upgraded."""
        complete = self._answered and self._body is not None and self._body.is_eof()
        return complete and not self.upgraded and self._exception is None

    def _go_on(self) -> None:
        reason = ""
        if self._informational > INFORMATIONAL:
            reason = f"more than {INFORMATIONAL} informational responses"
        elif self._head > HEAD:
            reason = f"more than {HEAD} bytes of headers"
        if not reason:
            # aiohttp stopped its read timeout at the informational response; start it again.
            self.start_timeout()
            return
        self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        self.set_exception(aiohttp.ServerDisconnectedError(f"the server sent {reason}"))
        if self.transport is not None:
            self.transport.abort()


def _has_tls(transport: asyncio.BaseTransport) -> bool:
    try:
        return transport.get_extra_info("sslcontext") is not None
    except AttributeError:
        return True  # a TLS transport of asyncio whose connection has just been lost
