"""Connections to ports inside a sandbox."""

import asyncio
import socket
from pathlib import Path

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.namespaces import Namespace, call_in

_CONNECT: Seconds = 10.0
_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


async def connect(netns: Path | None, port: int) -> socket.socket:
    """A connection to a port on the sandbox's loopback, IPv4 first. Transient when nobody listens."""
    last: OSError | None = None
    for family, address in _LOOPBACKS:
        # A socket belongs to the namespace in which it is made, wherever it is used afterwards.
        made = await asyncio.to_thread(_make, netns, family)
        try:
            async with asyncio.timeout(_CONNECT):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
            return made
        except TimeoutError:
            last = OSError(110, "timed out")
            made.close()
        except OSError as error:
            last = error
            made.close()
        except BaseException:
            made.close()
            raise
    assert last is not None
    raise Transient(f"cannot connect to port {port} of the pod: {last.strerror}") from last


def _make(netns: Path | None, family: int) -> socket.socket:
    def make() -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        made.setblocking(False)
        return made

    return make() if netns is None else call_in(str(netns), Namespace.NET, make)
