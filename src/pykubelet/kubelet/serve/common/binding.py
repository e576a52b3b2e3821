"""Listening TCP sockets, also ahead of the servers that use them."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from pykubelet.base.errors import Permanent
from pykubelet.kubelet.serve.common.plan.server_ports import ANY_ADDRESS

_BACKLOG: Final = 128
Listen: TypeAlias = Callable[[str, int, str, str], socket.socket]
"""Returns a listening socket; arguments and errors are those of `bind`."""


def bind(address: str, port: int, purpose: str, remedy: str) -> socket.socket:
    """Return a listening socket on an address; ``0.0.0.0`` includes IPv6 where it is available.

    Permanent: the address cannot be bound; the message names the ``purpose`` and the ``remedy``.
    """
    try:
        if address in ANY_ADDRESS and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Permanent(f"cannot listen on {address}:{port} for {purpose} ({error.strerror}); {remedy}") from error


class OpenPorts:
    """Ports on which the agent listens before its servers are there: clients wait for their answer meanwhile.

    Otherwise they would be refused for a second, whenever the agent is started again.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], socket.socket] = {}

    def open(self, address: str, port: int) -> bool:
        """Listen on a port; False: that is not possible, and `listen` says why."""
        with suppress(Permanent):
            self._open[address, port] = bind(address, port, "", "")
        return (address, port) in self._open

    def listen(self, address: str, port: int, purpose: str, remedy: str) -> socket.socket:
        """Return the socket of a port, which is then the caller's; one that was not opened is opened now.

        Permanent: as of `bind`.
        """
        return self._open.pop((address, port), None) or bind(address, port, purpose, remedy)

    def close(self) -> int:
        """Close the ports that no server has taken, and return their number. May be called from any thread."""
        closed = 0
        while self._open:
            with suppress(KeyError):
                self._open.popitem()[1].close()
                closed += 1
        return closed
