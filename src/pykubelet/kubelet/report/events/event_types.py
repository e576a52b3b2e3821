"""Settings of the event log, and events before they become API objects."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.base.units import KIB, Bytes, Seconds
from pykubelet.models.core_v1 import ObjectReference


class EventConfig(Struct, frozen=True):
    """Limits of the event log. Those of aggregation and rate are client-go's defaults, so that counts look familiar."""

    capacity: int = 1000
    """Maximum number of events kept in memory."""
    keep_for: Seconds = 7 * 86400.0
    """Seconds after which an event without repetition is forgotten."""
    aggregate_after: int = 10
    """Different messages of one reason and object recorded singly within `aggregate_window`."""
    aggregate_window: Seconds = 600.0
    burst: int = 25
    """Burst: events that an object may send at once."""
    refill_every: Seconds = 300.0
    """Seconds after which an object may send one more event."""
    max_tracked: int = 4096
    """Maximum number of objects and event kinds that are counted; the least recently used is forgotten."""
    max_message: Bytes = Bytes(12 * KIB)
    """Maximum UTF-8 bytes of a message, the rest is cut: more than the 10 KiB that is read of a probe's output."""


class Occurrence(Struct, frozen=True):
    """One occurrence of an event, as a stage reports it."""

    involved: ObjectReference
    type: str
    reason: str
    message: str
    at: Seconds
    """Unix time."""
    annotations: Mapping[str, str] = field(default_factory=dict)


class CorrelatedEvent(Struct, frozen=True):
    """The correlator's verdict on an occurrence."""

    occurrence: Occurrence
    """The occurrence to record; its message may stand for several."""
    name: str
    """The event's name; the earlier event's name if this is a repetition."""
    count: int
    first_at: Seconds
    suppressed: bool
    """The object has sent too many events: the occurrence is counted but not recorded."""
