"""The connections of a server: bounded, so that clients without access cannot lock out clients with access.

A connection is *trusted* once a request on it has passed the server's access check, or, where a server has no access
check, once a request arrived. Untrusted connections are limited in total and per source; when a limit is reached, the
oldest of the source with most of them is closed. Trusted connections are closed only while they are idle, the longest
idle first.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from pykubelet.kubelet.serve.common.limits import ConnectionLimits

LOCAL: Final = "local"
_IPV6_SITE: Final = 64
"""Prefix length of the IPv6 network that counts as one client, which chooses the other bits freely."""


class CloseReason(StrEnum):
    """Reason to close or reject a connection; label values of the metric."""

    EVICTED = "evicted"
    """Closed to admit another connection."""
    REFUSED = "refused"
    """Rejected: all other connections are serving requests."""
    SILENT = "silent"
    """Its first request did not arrive in time."""
    HANDSHAKE = "handshake"
    """The TLS handshake failed or took too long."""


class ConnectionRecord(Struct, eq=False):
    """One connection, with the source it counts for and the function that closes it."""

    source: str
    close: Callable[[], None]
    trusted: bool = False
    busy: bool = False
    """A request on it is being served."""


class Connections:
    """The connections of one server. ``closed`` is called for each one closed or rejected to keep the limits."""

    def __init__(self, limits: ConnectionLimits, closed: Callable[[CloseReason], None]) -> None:
        self._limits = limits
        self._closed = closed
        self._records: dict[ConnectionRecord, None] = {}
        """Untrusted connections in order of arrival, trusted ones in order of their last request."""

    def __len__(self) -> int:
        return len(self._records)

    def admit(self, record: ConnectionRecord) -> bool:
        """Add a new connection, closing another one if a limit is reached. False: the new one is rejected."""
        untrusted = [each for each in self._records if not each.trusted]
        same = [each for each in untrusted if each.source == record.source]
        if len(same) >= self._limits.untrusted_per_source:
            self._evict(same)
        elif len(untrusted) >= self._limits.untrusted:
            self._evict(_of_busiest_source(untrusted))
        elif len(self._records) >= self._limits.total:
            idle = [each for each in self._records if each.trusted and not each.busy]
            if not (idle or untrusted):
                self._closed(CloseReason.REFUSED)
                return False
            self._evict(idle or _of_busiest_source(untrusted))
        self._records[record] = None
        return True

    def begin(self, record: ConnectionRecord) -> None:
        """Note that a request arrived on the connection."""
        record.busy = True

    def end(self, record: ConnectionRecord) -> None:
        """Note that the request has been served."""
        record.busy = False
        if record.trusted and record in self._records:
            self._records[record] = self._records.pop(record)

    def forget(self, record: ConnectionRecord) -> None:
        """Remove a connection that has ended by itself. Idempotent."""
        self._records.pop(record, None)

    def drop(self, record: ConnectionRecord, reason: CloseReason) -> None:
        """Close a connection for a reason. Idempotent."""
        if record in self._records:
            del self._records[record]
            self._closed(reason)
            record.close()

    def _evict(self, candidates: Iterable[ConnectionRecord]) -> None:
        """Close the first idle connection of the candidates, else the first."""
        self.drop(min(candidates, key=lambda each: each.busy), CloseReason.EVICTED)


def _of_busiest_source(untrusted: Iterable[ConnectionRecord]) -> list[ConnectionRecord]:
    untrusted = list(untrusted)
    ((busiest, _),) = Counter(each.source for each in untrusted).most_common(1)
    return [each for each in untrusted if each.source == busiest]


def source_of(peer: object) -> str:
    """Return what counts as one client: an IPv4 address, an IPv6 network, or ``LOCAL`` for a unix socket (pure)."""
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
