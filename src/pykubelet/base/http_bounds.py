"""Bounds for the beginning of HTTP answers, which aiohttp lacks: it takes informational answers (RFC 9110, section
15.2) without end, thousands from each piece that comes, and its deadline for reads stops at the first of them.

A container behind a probe or a registry could keep the event loop busy so. Here an answer may begin with a few of them
and has a head of bounded size; then the connection ends with an error. A connection with TLS that is given up in the
middle of an answer is closed at once; asyncio would wait 30 s for the other side to agree (close_notify).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

from pykubelet.base.units import KIB

INFORMATIONAL: Final = 8
"""Before the answer proper. Servers send one or two."""
HEAD: Final = 64 * KIB
"""Bytes until the answer proper has its headers."""
_PIECE: Final = 2 * KIB
"""Parsed at once until then."""


class BoundedConnector(aiohttp.TCPConnector):
    """For sessions that ask servers which may be hostile. Arguments as of ``TCPConnector``."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # What makes the protocol of each connection; aiohttp has no public way to choose it.
        make: Callable[..., ResponseHandler] = _Handler
        self._factory = partial(make, loop=asyncio.get_running_loop())


class _Handler(ResponseHandler):
    """Reads the answers on one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answered = False
        self._informational = 0
        self._head = 0

    def set_response_params(self, **params: Any) -> None:
        """Another request: its answer begins."""
        self._answered = False
        self._informational = 0
        self._head = 0
        super().set_response_params(**params)

    def close(self) -> None:
        """Give the connection up. One with TLS ends at once: to say goodbye keeps it open until the other side does."""
        if self.transport is not None and self.transport.get_extra_info("sslcontext") is not None:
            self.abort()
        else:
            super().close()

    def data_received(self, data: bytes) -> None:
        """Until the answer proper begins, only a little is parsed at once, and counted."""
        rest = memoryview(data)
        while rest and not self._answered and self._parser is not None and self._exception is None:
            piece, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
            self._head += len(piece)
            super().data_received(piece)
            if not self._answered:
                self._go_on()
        if self._exception is None and (rest or not data):
            super().data_received(bytes(rest))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """An answer has its headers. Informational ones are dropped: nothing that is asked for here needs them."""
        code = data[0].code
        if 100 <= code < 200 and code != 101:
            self._informational += 1
            return
        self._answered = True
        super().feed_data(data, size)

    def _go_on(self) -> None:
        reason = ""
        if self._informational > INFORMATIONAL:
            reason = f"more than {INFORMATIONAL} informational answers"
        elif self._head > HEAD:
            reason = f"more than {HEAD} bytes of headers"
        if not reason:
            # An informational answer has ended the deadline for the next read.
            self.start_timeout()
            return
        self.set_exception(aiohttp.ServerDisconnectedError(f"the server sent {reason}"))
        if self.transport is not None:
            self.transport.abort()
