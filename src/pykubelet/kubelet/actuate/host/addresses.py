"""Follows the node's addresses: they are determined again at every node status, as the network may come or change."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.addresses import AddressSources, choose_addresses, specified_addresses
from pykubelet.kubelet.config.node_identity import route_addresses
from pykubelet.linux.sockets import interface_addresses

_log = logging.getLogger(__name__)
_LOOKUP: Final[Seconds] = 5.0
"""Limit for the lookup of the node's name: the name service must not delay the node's status for long."""
_EVERY: Final[Seconds] = 60.0
"""Interval of a node without a cluster, whose status nothing reads regularly."""


def _resolve(name: str) -> tuple[str, ...]:
    # As bytes: for text, Python would load tables of international names, and a node's name is ASCII.
    rows = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_DGRAM)
    return tuple(dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows))


class AddressReaders(Struct, frozen=True):
    """Functions that read the machine's addresses; tests replace them."""

    local: Callable[[], frozenset[str]] = interface_addresses
    """Returns the addresses of the interfaces. Blocks; raises OSError."""
    routes: Callable[[], tuple[str, ...]] = route_addresses
    """Returns the source addresses of the default routes. Blocks briefly."""
    look_up: Callable[[str], tuple[str, ...]] = _resolve
    """Returns the addresses of a host name. Blocks; raises gaierror."""


class NodeAddresses:
    """Determines the addresses; tells ``changed`` when they differ from the last ones."""

    def __init__(
        self,
        settings: Settings,
        *,
        changed: Callable[[tuple[str, ...]], None],
        clock: Clock,
        machine: AddressReaders | None = None,
    ) -> None:
        self._name = settings.node_name
        self._given = settings.given_ips
        self._changed = changed
        self._clock = clock
        self._machine = machine or AddressReaders()
        self._last = () if specified_addresses(settings.given_ips) else settings.node_ips
        self._fault = ""

    async def read(self) -> tuple[str, ...] | None:
        """Return the node's addresses now, primary first; None: there is none at present, which is logged once."""
        try:
            found = choose_addresses(await self._sources(), self._last)
        except (Invalid, Transient, OSError) as error:
            if str(error) != self._fault:
                self._fault = str(error)
                _log.warning("node address unknown", extra={"node": self._name, "error": str(error)})
            return None
        if found != self._last or self._fault:
            _log.info("node addresses determined", extra={"node": self._name, "addresses": ",".join(found)})
            self._fault = ""
        if found != self._last:
            self._last = found
            self._changed(found)
        return found

    async def run(self) -> None:
        """Follow the addresses of a node without a cluster until cancelled."""
        guard = Guard("node.addresses", self._clock.monotonic)
        while True:
            with guard.item(self._name):
                await self.read()
            await self._clock.sleep(_EVERY)

    async def _sources(self) -> AddressSources:
        local = await blocking.call("node-addresses", self._machine.local)
        if specified_addresses(self._given):
            return AddressSources(self._name, self._given, local)
        routes = await blocking.call("node-addresses", self._machine.routes)
        return AddressSources(self._name, self._given, local, await self._looked_up(), routes)

    async def _looked_up(self) -> tuple[str, ...] | None:
        """Return the addresses of the node's name; empty: it has none; None: no answer."""
        try:
            async with asyncio.timeout(_LOOKUP):
                found = await blocking.call("node-name", self._machine.look_up, self._name)
        except (TimeoutError, Transient):
            return None
        except socket.gaierror as error:
            return None if error.errno == socket.EAI_AGAIN else ()
        return found
