"""Settings of the event log and what an event is before it becomes an object of the API."""

from dataclasses import dataclass

from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import ObjectReference


@dataclass(frozen=True, slots=True)
class EventConfig:
    """Limits. Those of aggregation and rate are client-go's defaults, so that counts look as people know them."""

    capacity: int = 1000
    """Events kept in memory."""
    keep_for: Seconds = 3600.0
    """An event that was not repeated for so long is forgotten."""
    aggregate_after: int = 10
    """So many different messages of one reason and object within `aggregate_window` are told one by one."""
    aggregate_window: Seconds = 600.0
    burst: int = 25
    """So many events an object may send at once…"""
    refill_every: Seconds = 300.0
    """…and one more each time this has passed."""
    max_tracked: int = 4096
    """Objects and kinds of events of which counts are kept; the stalest is forgotten."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened."""

    involved: ObjectReference
    type: str
    reason: str
    message: str
    at: Seconds
    """Unix time."""


@dataclass(frozen=True, slots=True)
class Correlated:
    """What the correlator makes of an occurrence."""

    occurrence: Occurrence
    """As it is to be shown: its message may stand for several."""
    name: str
    """The event's name; that of an earlier event if this is a repetition."""
    count: int
    first_at: Seconds
    suppressed: bool
    """The object has sent too many; it counts but is not shown."""
