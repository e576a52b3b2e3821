"""Limits of a server: connections, and requests at a time."""

from dataclasses import dataclass

from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long each may take until its first request."""

    total: int
    strangers: int
    """Connections that are not proven (see ``connections``)."""
    strangers_per_source: int
    handshake: Seconds = 10.0
    """For the first byte, and again for the TLS handshake."""
    first_request: Seconds = 30.0
    """A connection that has not sent its first request's headers by then is closed."""


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """Requests at a time; more are rejected with 429 and Retry-After."""

    short: int
    short_per_user: int
    streams: int
    streams_per_user: int
    commands: int = 8
    commands_per_user: int = 4
    deadline: Seconds = 60.0
    """Of a short request, from its headers to the last byte of its answer."""
