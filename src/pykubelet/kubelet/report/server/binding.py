"""The listening sockets of the servers that are reached over TCP."""

import socket
from typing import Final

from pykubelet.base.errors import Permanent

_BACKLOG: Final = 128


def bind(address: str, port: int, purpose: str, remedy: str) -> socket.socket:
    """A listening socket for all that is meant by the address; ``0.0.0.0`` takes IPv6 too where there is any.

    Permanent: it cannot be had, for which ``purpose``, and the ``remedy``.
    """
    try:
        if address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Permanent(f"cannot listen on {address}:{port} for {purpose} ({error.strerror}); {remedy}") from error
