"""Values of the journal of decisions."""

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.reports.decisions import Decision


class Entry(Struct, frozen=True):
    """A decision, taken ``count`` times for the same reason. Times are Unix seconds."""

    decision: Decision
    first_at: Seconds
    last_at: Seconds
    count: int = 1


class PodJournal(Struct, frozen=True):
    """The journal's data of one pod."""

    entries: tuple[Entry, ...] = ()
    """The newest first."""
    synced_at: Seconds = 0.0
    """Unix time of the last sync; 0: there was none."""
    last_sync: tuple[Decision, ...] = ()
