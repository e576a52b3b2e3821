"""Detection of clients that hang up while the server does not read from them, because earlier data was not consumed.

The event loop does not watch such a connection, so its end would go unnoticed: the session and all its resources
would stay until the command that does not read ends.
"""

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol

from pykubelet.base.units import Seconds

STUCK: Seconds = 30.0
"""A client that hung up counts as gone if none of its data was consumed for so long."""

_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9))
"""Seconds of silence, seconds between keep-alive probes, and their number (the values that Go uses)."""

_RESET = struct.pack("ii", 1, 0)
"""A struct linger that makes ``close`` drop unsent data and send a reset (socket(7))."""


class Connection(Protocol):
    """A transport, a stream's writer or a WebSocket of aiohttp."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See ``asyncio.BaseTransport.get_extra_info``."""
        ...


def keep_alive(connection: Connection) -> None:
    """Enable TCP keep-alive probes. The kernel's default would send the first one after two hours.

    While nothing is read, these probes are the only sign that a client has gone: its FIN waits behind its data.
    """
    found = _socket(connection)
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            found.setsockopt(socket.IPPROTO_TCP, option, value)


def abort_connection(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once with a reset, so that the peer notices even if it has not read earlier data."""
    found = _socket(writer)
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def hung_up(connection: Connection) -> bool:
    """Whether the peer has closed at least its sending direction."""
    return _polled(connection, select.POLLRDHUP)


def vanished(connection: Connection) -> bool:
    """Whether the peer takes nothing any more: the connection broke, or it has closed both directions.

    Of TCP the second is only seen when the peer resets the connection, of a unix socket at once.
    """
    return _polled(connection, 0)  # POLLHUP and POLLERR are always looked for (poll(2))


def _polled(connection: Connection, events: int) -> bool:
    found = _socket(connection)
    number = -1 if found is None else found.fileno()
    if number < 0:
        return True
    poll = select.poll()
    poll.register(number, events)
    return bool(poll.poll(0))


def _socket(connection: Connection) -> Any:
    """The connection's socket; None if it has gone."""
    try:
        return connection.get_extra_info("socket")
    except AttributeError:
        return None  # a TLS transport of asyncio that was closed after its connection had been lost


async def wait_until_stuck(taken: Callable[[], int], gone: Callable[[], bool]) -> None:
    """Return when the peer has gone (``gone``) and the amount of consumed data (``taken``) no longer grows."""
    before = -1
    while before != (now := taken()) or not gone():
        before = now
        await asyncio.sleep(STUCK)
