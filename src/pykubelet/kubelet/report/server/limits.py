"""What a server puts up with."""

from dataclasses import dataclass

from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Connections."""

    total: int
    strangers: int
    """Connections that are not proven."""
    strangers_per_source: int
    handshake: Seconds = 10.0
    """For the first byte, and again for the TLS handshake."""
    first_request: Seconds = 30.0
    """A connection that has not sent its first request's headers by then is closed."""


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """Requests at once; more are told to come back (429)."""

    short: int
    short_per_user: int
    streams: int
    streams_per_user: int
    commands: int = 8
    commands_per_user: int = 4
    deadline: Seconds = 60.0
    """Of a short request, from its headers to the last byte of its answer."""
