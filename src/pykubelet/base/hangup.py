"""Clients that hang up while nothing is read from them, because what they have sent before is not taken.

The event loop does not watch such a connection, so nothing would tell of its end: the session, with all that it holds,
would stay as long as the command that does not read.
"""

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol

from pykubelet.base.units import Seconds

STUCK: Seconds = 30.0
"""Whoever hung up, and of whose data nothing was taken for so long, has gone."""

_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9))
"""Seconds of silence, seconds between questions, and how many of them (those of Go's programs)."""

_RESET = struct.pack("ii", 1, 0)
"""A struct linger by which ``close`` throws away what was not sent, and sends a reset (socket(7))."""


class Connection(Protocol):
    """A transport, a stream's writer or a WebSocket of aiohttp."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As of ``asyncio.BaseTransport``."""
        ...


def keep_alive(connection: Connection) -> None:
    """Let the kernel ask now and then whether the other side is still there. Its default is after two hours.

    Of a client that has gone while we do not read, this is all that we ever hear: its last word waits behind its data.
    """
    found = connection.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            found.setsockopt(socket.IPPROTO_TCP, option, value)


def abort_connection(writer: asyncio.StreamWriter) -> None:
    """Close at once, so that the other side hears of it even if it has not read what was sent before."""
    found = writer.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def hung_up(connection: Connection) -> bool:
    """Whether the other side has closed at least the direction to us."""
    found = connection.get_extra_info("socket")
    number = -1 if found is None else found.fileno()
    if number < 0:
        return True
    poll = select.poll()
    poll.register(number, select.POLLRDHUP)
    return bool(poll.poll(0))


async def wait_until_stuck(taken: Callable[[], int], gone: Callable[[], bool]) -> None:
    """Return when the other side has gone, and what was taken of its data has not become more for a while."""
    before = -1
    while before != (now := taken()) or not gone():
        before = now
        await asyncio.sleep(STUCK)
