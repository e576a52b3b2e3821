"""Combines, counts and rate-limits events. No effects; the time is an argument.

Three stages, as in client-go's event correlator, so that an event storm looks the same with every kubelet: many
different messages of one kind become one event ("combined from similar events"), equal events are counted, and an
object that sends too many is silenced.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.token_bucket import TokenBucket
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.events.event_types import CorrelatedEvent, EventConfig, Occurrence

COMBINED_PREFIX = "(combined from similar events): "

V = TypeVar("V")


class _Group(Struct):
    """The different messages of one kind seen recently."""

    last_at: Seconds
    messages: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    """Their digests: the messages themselves may be long, and groups are many."""


class _RecordedEvent(Struct):
    """An event that was recorded before."""

    name: str
    first_at: Seconds
    count: int


class _RecentEntries(Generic[V]):
    """A dict that drops the least recently used entry beyond its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> V:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value


class Correlator:
    """Remembers recent events. One per event log."""

    def __init__(self, config: EventConfig) -> None:
        self._config = config
        self._last_name = 0
        self._groups: _RecentEntries[_Group] = _RecentEntries(config.max_tracked)
        self._known: _RecentEntries[_RecordedEvent] = _RecentEntries(config.max_tracked)
        self._buckets: _RecentEntries[TokenBucket] = _RecentEntries(config.max_tracked)

    def correlate(self, occurrence: Occurrence) -> CorrelatedEvent:
        """Return the event to record for this occurrence."""
        shown, key = self._aggregate(occurrence)
        known = self._known.get(key)
        if known is None:
            known = self._known.put(key, _RecordedEvent(self._name(occurrence), occurrence.at, 0))
        known.count += 1
        suppressed = not self._take_token(occurrence)
        return CorrelatedEvent(shown, known.name, known.count, known.first_at, suppressed)

    def _name(self, occurrence: Occurrence) -> str:
        """Return a unique name: the object's name and the time in nanoseconds, made to grow if the clock does not."""
        self._last_name = max(int(occurrence.at * 1e9), self._last_name + 1)
        return f"{occurrence.involved.name}.{self._last_name:x}"

    def _aggregate(self, occurrence: Occurrence) -> tuple[Occurrence, Hashable]:
        """Return the occurrence and its key, or those of the combined event that stands for many like it."""
        kind = (*_identity(occurrence), occurrence.type, occurrence.reason)
        group = self._groups.get(kind)
        if group is None or occurrence.at - group.last_at > self._config.aggregate_window:
            group = self._groups.put(kind, _Group(occurrence.at))
        group.last_at = occurrence.at
        message = _digest(occurrence.message)
        group.messages[message] = None
        if len(group.messages) < self._config.aggregate_after:
            return occurrence, (*kind, occurrence.involved.field_path, message)
        group.messages.popitem(last=False)
        return replace(occurrence, message=COMBINED_PREFIX + occurrence.message), kind

    def _take_token(self, occurrence: Occurrence) -> bool:
        key = (*_identity(occurrence), occurrence.type)  # warnings must not silence ordinary events
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(1 / self._config.refill_every, self._config.burst, now=occurrence.at)
            self._buckets.put(key, bucket)
        return bucket.try_take(occurrence.at)


def _identity(occurrence: Occurrence) -> tuple[str, ...]:
    involved = occurrence.involved
    return (involved.kind, involved.namespace, involved.name, involved.uid)


def _digest(message: str) -> bytes:
    return hashlib.blake2b(message.encode(errors="surrogatepass"), digest_size=16).digest()
