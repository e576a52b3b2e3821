"""TCP ports for servers of tests and measurements that must know their port before they listen."""

import random
import socket
from collections.abc import Iterator

# Below the ephemeral ports of every usual kernel (32768 to 60999), above the well-known servers of a node (10248 to
# 10260) and outside of the range of node ports (30000 to 32767).
_PORTS = range(11_000, 30_000)


def free_port() -> int:
    """
    A TCP port on which no process listens, which this process gets only once.

    The kernel gives ephemeral ports to every connection and to every socket bound to port 0; such a port may belong
    to someone else before its server listens. These ports are not ephemeral, and tests that run beside each other
    choose them at random.
    """
    return next(_FREE)


def _free_ports() -> Iterator[int]:
    choice = random.SystemRandom()
    for port in choice.sample(_PORTS, len(_PORTS)):
        try:
            # All addresses: a listener on any one of them makes this fail.
            with socket.create_server(("", port)):
                pass
        except OSError:
            continue
        yield port


_FREE = _free_ports()
