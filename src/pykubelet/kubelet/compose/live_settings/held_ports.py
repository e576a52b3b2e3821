"""The TCP ports of the agent's servers. Imported early in a start, so it imports little."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import server_enabled
from pykubelet.kubelet.serve.common.binding import Listen, OpenPorts
from pykubelet.kubelet.serve.common.plan.server_ports import Port

_log = logging.getLogger(__name__)
_LONGEST: Final[Seconds] = 30.0
"""A start that takes longer waits for something: an authority that signs certificates, a disk, the runtime."""


class HeldPorts(Struct, frozen=True):
    """The ports that are open before the servers serve."""

    ports: tuple[Port, ...]
    """Those that could be opened."""
    listen: Listen
    """Returns the socket of one, for its server."""


def server_ports(settings: Settings) -> list[Port]:
    """Return the ports of all servers."""
    config = settings.config
    found = [Port("healthzPort", config.healthz_bind_address, config.healthz_port)]
    if server_enabled(settings):
        found.append(Port("port", config.address, config.port))
        found.append(Port("readOnlyPort", config.address, config.read_only_port))
    return found


@contextmanager
def held_ports(settings: Settings, longest: Seconds = _LONGEST) -> Iterator[HeldPorts]:
    """Listen on the servers' ports at once, and until the end of the block on those that no server has taken.

    After the ``longest`` time they are closed: a client that checks whether the agent is up would hang, and then
    find the queue of connections full. Until the servers serve, clients are refused then, as by the Go kubelet.

    Ports that cannot be opened are left out: an error of the configuration is reported first.
    """
    sockets = OpenPorts()

    def give_up() -> None:
        if sockets.close():
            _log.info("ports closed until the servers serve: the start takes long", extra={"after_s": longest})

    # A thread, since a disk that is not responding may block the main thread, even before there is an event loop.
    timer = threading.Timer(longest, give_up)
    timer.name, timer.daemon = "held-ports", True
    timer.start()
    try:
        opened = [port for port in server_ports(settings) if port.number and sockets.open(port.address, port.number)]
        yield HeldPorts(tuple(opened), sockets.listen)
    finally:
        timer.cancel()
        sockets.close()
