"""Which connections a server holds: bounded, and such that clients without rights cannot lock out those with rights.

A connection is *proven* once a request on it was let through the server's door; where a server has no door, once a
request came. All others are strangers: they may be few, few of them from one source, and for one more the oldest of the
source with most of them is closed. Proven connections are closed only while they are idle, the longest idle first.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pykubelet.kubelet.report.server.limits import ConnectionLimits

LOCAL: Final = "local"
_IPV6_SITE: Final = 64
"""Bits of an IPv6 address that one client cannot choose."""


class Closed(StrEnum):
    """Why the server closed a connection, or did not take it."""

    EVICTED = "evicted"
    """To make room for another."""
    REFUSED = "refused"
    """There was no room: all others are being served."""
    SILENT = "silent"
    """Its first request did not come in time."""
    HANDSHAKE = "handshake"
    """It failed, or took too long."""


@dataclass(slots=True, eq=False)
class Held:
    """One connection."""

    source: str
    close: Callable[[], None]
    proven: bool = False
    busy: bool = False
    """A request on it is being served."""


class Connections:
    """The connections of one server. ``closed`` is told of each that is closed, or not taken, to keep the limits."""

    def __init__(self, limits: ConnectionLimits, closed: Callable[[Closed], None]) -> None:
        self._limits = limits
        self._closed = closed
        self._held: dict[Held, None] = {}
        """Strangers in the order in which they came, proven ones in the order of their last request."""

    def __len__(self) -> int:
        return len(self._held)

    def admit(self, held: Held) -> bool:
        """Take a new connection, and close another for it where that is needed. False: there is no room for it."""
        strangers = [each for each in self._held if not each.proven]
        same = [each for each in strangers if each.source == held.source]
        if len(same) >= self._limits.strangers_per_source:
            self._evict(same)
        elif len(strangers) >= self._limits.strangers:
            self._evict(_of_heaviest_source(strangers))
        elif len(self._held) >= self._limits.total:
            idle = [each for each in self._held if each.proven and not each.busy]
            if not (idle or strangers):
                self._closed(Closed.REFUSED)
                return False
            self._evict(idle or _of_heaviest_source(strangers))
        self._held[held] = None
        return True

    def begin(self, held: Held) -> None:
        """A request came on it."""
        held.busy = True

    def end(self, held: Held) -> None:
        """The request has been served."""
        held.busy = False
        if held.proven and held in self._held:
            self._held[held] = self._held.pop(held)

    def forget(self, held: Held) -> None:
        """It has ended by itself. Repeatable."""
        self._held.pop(held, None)

    def drop(self, held: Held, reason: Closed) -> None:
        """Close one, for a reason of its own. Repeatable."""
        if held in self._held:
            del self._held[held]
            self._closed(reason)
            held.close()

    def _evict(self, candidates: Iterable[Held]) -> None:
        """Close the first that is idle, else the first."""
        self.drop(min(candidates, key=lambda each: each.busy), Closed.EVICTED)


def _of_heaviest_source(strangers: Iterable[Held]) -> list[Held]:
    strangers = list(strangers)
    ((heaviest, _),) = Counter(each.source for each in strangers).most_common(1)
    return [each for each in strangers if each.source == heaviest]


def source_of(peer: object) -> str:
    """What counts as one client: an IPv4 address, the network of an IPv6 address, or all of a unix socket's (pure)."""
    if not isinstance(peer, tuple) or not peer:
        return LOCAL
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return LOCAL
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_SITE), strict=False))
