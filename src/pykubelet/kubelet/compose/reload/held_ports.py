"""The TCP ports of the agent's servers. Imported early in a start, so it imports little."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import server_enabled
from pykubelet.kubelet.serve.common.binding import Listen, OpenPorts


class Port(Struct, frozen=True):
    """A port of a server."""

    field: str
    """The field of the configuration that names it."""
    address: str
    number: int
    """0: none."""


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
def held_ports(settings: Settings) -> Iterator[HeldPorts]:
    """Listen on the servers' ports at once, and until the end of the block on those that no server has taken.

    Ports that cannot be opened are left out: an error of the configuration is reported first.
    """
    sockets = OpenPorts()
    try:
        opened = [port for port in server_ports(settings) if port.number and sockets.open(port.address, port.number)]
        yield HeldPorts(tuple(opened), sockets.listen)
    finally:
        sockets.close()
