"""Listening TCP sockets."""

import socket
from typing import Final

from pykubelet.base.errors import Permanent

_BACKLOG: Final = 128


def bind(address: str, port: int, purpose: str, remedy: str) -> socket.socket:
    """Return a listening socket on an address; ``0.0.0.0`` includes IPv6 where it is available.

    Permanent: the address cannot be bound; the message names the ``purpose`` and the ``remedy``.
    """
    try:
        if address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Permanent(f"cannot listen on {address}:{port} for {purpose} ({error.strerror}); {remedy}") from error
