"""Limits of a server: connections and concurrent requests."""

from msgspec import Struct

from pykubelet.base.units import Seconds


class ConnectionLimits(Struct, frozen=True):
    """Limits on the number of connections, and on the time until their first request."""

    total: int
    untrusted: int
    """Untrusted connections (see ``connections``)."""
    untrusted_per_source: int
    handshake: Seconds = 10.0
    """Seconds until the first byte, and again for the TLS handshake."""
    first_request: Seconds = 30.0
    """Seconds until the first request's headers; a connection without them by then is closed."""


class SlotLimits(Struct, frozen=True):
    """Concurrent requests of each kind; more are rejected with 429 and Retry-After."""

    short: int
    short_per_user: int
    streams: int
    streams_per_user: int
    commands: int = 8
    commands_per_user: int = 4
    deadline: Seconds = 60.0
    """Seconds for a short request, from its headers to the last byte of its answer."""
