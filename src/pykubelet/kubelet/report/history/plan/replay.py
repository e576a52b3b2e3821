"""Replay of the records of a history file: the last record of a key counts, and limits hold. Pure."""

from collections import OrderedDict
from typing import Generic, TypeVar

from msgspec import Struct, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.history.history_types import (
    EndRecord,
    EventRecord,
    GoneRecord,
    Header,
    HistoryLimits,
    Record,
    StartRecord,
    TimelineRecord,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd

V = TypeVar("V")


class Replay(Struct, Generic[V]):
    """The state after the records passed to :meth:`apply`. ``V``: what is kept of an event (its place, or its body).

    ``oldest``: Unix time; events and ends before it are dropped. ``events_at_most`` may be less than the limit.
    """

    limits: HistoryLimits
    oldest: Seconds
    events_at_most: int
    events: OrderedDict[str, V] = field(default_factory=OrderedDict)
    dropped_events: bool = False
    """Events were left out because of ``events_at_most``."""
    started: OrderedDict[PodUID, Seconds] = field(default_factory=OrderedDict)
    timelines: OrderedDict[PodUID, TimelineRecord] = field(default_factory=OrderedDict)
    ends: OrderedDict[PodUID, OrderedDict[str, ContainerEnd]] = field(default_factory=OrderedDict)

    def apply(self, record: Record, event: V) -> None:
        """Apply the next record; ``event`` is kept if it is an event's."""
        match record:
            case EventRecord(key=key, at=at):
                self.events.pop(key, None)
                if at >= self.oldest:
                    self.events[key] = event
                    self._trim_events()
            case StartRecord(uid=uid, at=at):
                _latest(self.started, uid, at, self.limits.pods)
            case TimelineRecord(uid=uid):
                _latest(self.timelines, uid, record, self.limits.timelines)
            case EndRecord(uid=uid, body=end):
                self._end(uid, end)
            case GoneRecord(uid=uid):
                for known in (self.started, self.timelines, self.ends):
                    known.pop(uid, None)
            case Header():
                pass

    def _trim_events(self) -> None:
        if len(self.events) > self.events_at_most:
            self.events.popitem(last=False)
            self.dropped_events = True

    def _end(self, uid: PodUID, end: ContainerEnd) -> None:
        if end.finished_at >= self.oldest:
            add_end(self.ends.setdefault(uid, OrderedDict()), end, self.limits.ends_of_pod)
            if len(self.ends) > self.limits.pods:
                self.ends.popitem(last=False)

    def records(self) -> list[Record]:
        """Return the records that lead to this state, without those of events."""
        ends = [EndRecord(uid, end) for uid, known in self.ends.items() for end in known.values()]
        return [*(StartRecord(uid, at) for uid, at in self.started.items()), *self.timelines.values(), *ends]


def add_end(known: OrderedDict[str, ContainerEnd], end: ContainerEnd, at_most: int) -> bool:
    """Add an end to those of its pod; the oldest one is dropped beyond the limit. Return whether it is new."""
    if end.key in known:
        return False
    known[end.key] = end
    if len(known) > at_most:
        known.popitem(last=False)
    return True


def _latest(known: OrderedDict[PodUID, V], uid: PodUID, value: V, at_most: int) -> None:
    known.pop(uid, None)
    known[uid] = value
    if len(known) > at_most:
        known.popitem(last=False)
