"""`History`: collects changes, writes them in batches, and restores them when the agent starts."""

import asyncio
import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, TypeVar, TypeVarTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.history.history_file import HistoryFile
from pykubelet.kubelet.report.history.history_types import (
    EndRecord,
    EventRecord,
    GoneRecord,
    HistoryLimits,
    LoadedHistory,
    Record,
    StartRecord,
    TimelineRecord,
)
from pykubelet.kubelet.report.history.plan.container_ends import new_ends
from pykubelet.kubelet.report.history.plan.replay import add_end
from pykubelet.kubelet.report.history.start_times import StartTimes
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.models import codec
from pykubelet.models.core_v1 import Event

_log = logging.getLogger(__name__)
_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

FILE_NAME: Final = "history.jsonl"
BATCH_SECONDS: Final[Seconds] = 1.0
"""Time for which changes are collected before they are written."""
_LOAD_SECONDS: Final[Seconds] = 5.0
_WRITE_SECONDS: Final[Seconds] = 30.0
_RETRY_SECONDS: Final[Seconds] = 5.0
"""Delay after a first failure; it doubles up to 60 times as much."""
_STOP_SECONDS: Final[Seconds] = 1.0
_MOST_PENDING: Final = 4096
"""Events, and other records, that wait while the file cannot be written; the oldest are dropped."""
_MOST_STEPS: Final = 300
"""Timelines with more steps are stored without the earlier starts."""
_UNWRITABLE: Final = (PykubeletError, OSError)


class Meter(Protocol):
    """Metrics of the history."""

    def history_failed(self) -> None:
        """Count a failure to read or write the file."""


class HistoryDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `History`."""

    directory: Path
    """Directory of the file."""
    events: EventLog
    timelines: PodTimelines
    starts: StartTimes
    telemetry: Telemetry[Meter]


class History:
    """The history across restarts. All methods but `load`, `run` and `older_events` return at once; for one thread."""

    def __init__(self, deps: HistoryDeps, limits: HistoryLimits | None = None) -> None:
        self._deps = deps
        self._limits = limits or HistoryLimits()
        self._path = deps.directory / FILE_NAME
        self._file = HistoryFile(self._path, self._limits)
        self._clock = deps.telemetry.clock
        self._guard = Guard("history.batches", self._clock.monotonic)
        self._backoff = Backoff(_RETRY_SECONDS, 60 * _RETRY_SECONDS)
        self._changed = asyncio.Event()
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._timelines: set[PodUID] = set()
        self._records: OrderedDict[tuple[str, str], Record] = OrderedDict()
        """Other records that wait, by kind and key."""
        self._ends: dict[PodUID, OrderedDict[str, ContainerEnd]] = {}
        """The last ends of containers, by pod."""
        self._restored: set[PodUID] = set()
        """Pods of an earlier run that no source has delivered yet."""
        self._written: dict[PodUID, int] = {}
        """Checksums of the timelines as they were written last."""
        self._has_more_events = False
        self._reads: SingleFlight[int, list[Event]] = SingleFlight()
        """Reads of older events, each by the number of those that had begun when it was asked for."""
        self._begun_reads = 0
        self._reading = asyncio.Lock()
        self._failing = False
        deps.events.recorded.subscribe(self._event_recorded)
        deps.starts.forgotten.subscribe(self._pod_removed)

    async def load(self) -> None:
        """Restore what an earlier run of the agent has written; call it once, before the first pod arrives.

        Never raises because of the file: a damaged one is set aside, one that cannot be read now is done without.
        """
        newest = self._deps.events.capacity
        try:
            found = await self._call(self._file.load, self._clock.now(), newest, deadline=_LOAD_SECONDS)
        except _UNWRITABLE as error:
            self._failed(error, "read")
            return
        if found.damage:
            self._warn(Reason.HISTORY_DAMAGED, found.damage)
        self._restore(found)

    async def run(self, desired: Callable[[], Collection[PodUID] | None]) -> None:
        """Write changes until cancelled, and what waits then.

        ``desired`` returns the pods of all sources, or None while a source has not been read yet; then, what an earlier
        run has written about other pods is forgotten.
        """
        try:
            while True:
                with self._guard.item("batch"):
                    await self._next_batch(desired)
        finally:
            await self._write_last()

    def status_changed(self, change: StatusChange) -> None:
        """Note what has changed with a pod's status: its start, ends of containers, and its timeline."""
        status = change.current
        if status is None:
            return
        uid = change.uid
        if status.start_time is not None and self._deps.starts.note(uid, status.start_time.timestamp()):
            self._put("pod", uid, StartRecord(uid, status.start_time.timestamp()))
        for end in new_ends(change.previous, status):
            known = self._ends.setdefault(uid, OrderedDict())
            if add_end(known, end, self._limits.ends_of_pod):
                self._put("end", f"{uid}/{end.key}", EndRecord(uid, end))
        self._timelines.add(uid)
        self._changed.set()

    def ends(self, uid: PodUID) -> tuple[ContainerEnd, ...]:
        """Return the last ends of the pod's containers, the earliest first."""
        return tuple(self._ends.get(uid, {}).values())

    async def older_events(self, matches: Callable[[Event], bool]) -> list[Event]:
        """Return the events that match and are not in the event log any more, the oldest first."""
        if not (self._has_more_events or self._deps.events.dropped):
            return []
        try:
            # A read that has begun may lack what has left the event log since: the next one is shared.
            older = await self._reads.run(self._begun_reads, self._read_older)
        except _UNWRITABLE as error:
            _log.debug("history: events not read", extra={"error": str(error)})
            return []
        return [event for event in older if matches(event)]

    async def _read_older(self) -> list[Event]:
        async with self._reading:
            self._begun_reads += 1
            known = frozenset(change.key for change in self._deps.events.table.changes())
            return await self._call(self._file.older_events, self._clock.now(), known)

    # -- changes -------------------------------------------------------------------------------------------------------

    def _event_recorded(self, key: str, event: Event) -> None:
        self._events.pop(key, None)
        self._events[key] = event
        if len(self._events) > _MOST_PENDING:
            self._events.popitem(last=False)
        self._changed.set()

    def _pod_removed(self, uid: PodUID) -> None:
        self._timelines.discard(uid)
        self._written.pop(uid, None)
        self._ends.pop(uid, None)
        self._deps.timelines.forget(uid)
        self._records.pop(("pod", uid), None)
        self._put("gone", uid, GoneRecord(uid))

    def _put(self, kind: str, key: str, record: Record) -> None:
        self._records.pop((kind, key), None)
        self._records[kind, key] = record
        if len(self._records) > _MOST_PENDING:
            self._records.popitem(last=False)
        self._changed.set()

    def _restore(self, found: LoadedHistory) -> None:
        self._deps.starts.restore(found.started)
        self._deps.timelines.restore(found.timelines)
        self._deps.events.restore(found.events)
        self._has_more_events = found.more_events
        self._restored = {*found.started, *found.timelines, *found.ends}
        for uid, ends in found.ends.items():
            known = self._ends.setdefault(uid, OrderedDict())
            for end in ends:
                add_end(known, end, self._limits.ends_of_pod)

    def _forget_absent(self, desired: AbstractSet[PodUID]) -> None:
        for uid in self._restored - desired:
            self._deps.starts.forget(uid)
        self._restored = set()

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _next_batch(self, desired: Callable[[], Collection[PodUID] | None]) -> None:
        await self._changed.wait()
        await self._clock.sleep(BATCH_SECONDS)
        uids = desired() if self._restored else None
        if uids is not None:
            self._forget_absent(frozenset(uids))
        if not await self._write(_WRITE_SECONDS):
            await self._clock.sleep(self._backoff.next("", self._clock.monotonic()))

    async def _write(self, deadline: Seconds) -> bool:
        """Write what waits; return False if it could not be written, and waits again."""
        self._changed.clear()
        events, records, timelines = self._events, self._records, self._timelines
        self._events, self._records, self._timelines = OrderedDict(), OrderedDict(), set()
        drawn, sums = self._timeline_records(timelines)
        batch = [*records.values(), *drawn, *_event_records(events)]
        if not batch:
            return True
        try:
            damage = await self._call(self._file.append, batch, self._clock.now(), deadline=deadline)
        except BaseException as error:
            self._events = _newest({**events, **self._events})
            self._records = _newest({**records, **self._records})
            self._timelines |= timelines
            self._changed.set()
            if not isinstance(error, _UNWRITABLE):
                raise
            self._failed(error, "written")
            return False
        self._succeeded()
        for uid, found in sums.items():
            if self._deps.timelines.view(uid) is not None:  # else the pod was removed during the write
                self._written[uid] = found
        if damage:
            self._warn(Reason.HISTORY_DAMAGED, damage)
        return True

    def _timeline_records(self, uids: Iterable[PodUID]) -> tuple[list[Record], dict[PodUID, int]]:
        """Return the timelines that differ from what was written last, and their checksums."""
        records: list[Record] = []
        sums: dict[PodUID, int] = {}
        for uid in sorted(uids):
            view = self._deps.timelines.view(uid)
            if view is not None:
                record = TimelineRecord(uid, view.started_at, _short(view))
                found = zlib.crc32(codec.encode(record))
                if self._written.get(uid) != found:
                    records.append(record)
                    sums[uid] = found
        return records, sums

    async def _write_last(self) -> None:
        """Write what waits when the agent stops, if the disk responds soon."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._write(_STOP_SECONDS)
        except TimeoutError:
            _log.warning("history: last changes not written", extra={"file": str(self._path)})

    def _failed(self, error: Exception, what: str) -> None:
        self._deps.telemetry.metrics.history_failed()
        text = f"{self._path} cannot be {what}: {error}; events and timelines will not survive a restart of the agent"
        if self._failing:
            _log.debug("history still not available", extra={"file": str(self._path), "error": str(error)})
            return
        self._failing = True
        self._warn(Reason.HISTORY_UNAVAILABLE, text)

    def _succeeded(self) -> None:
        self._backoff.reset("")
        if self._failing:
            self._failing = False
            _log.info("history written again", extra={"file": str(self._path)})

    def _warn(self, reason: str, message: str) -> None:
        _log.warning("history incomplete", extra={"reason": reason, "file": str(self._path), "cause": message})
        self._deps.events.event(None, WARNING, reason, message)

    async def _call(self, function: Callable[[*_Ts], _T], *args: *_Ts, deadline: Seconds = _WRITE_SECONDS) -> _T:
        return await blocking.call("history", function, *args, deadline=deadline, at_once=1)


def _short(view: TimelineView) -> TimelineView:
    """Return a timeline that is not too long to be stored."""
    steps = sum(len(each.steps) for each in (view, *view.earlier))
    return view if steps <= _MOST_STEPS else replace(view, earlier=())


def _event_records(events: Mapping[str, Event]) -> Iterator[Record]:
    """Yield the records of events, without those whose text is not UTF-8 (from the name of a file)."""
    for key, event in events.items():
        with suppress(UnicodeEncodeError):
            yield EventRecord(key, _last(event), msgspec.Raw(codec.encode(event)))


def _last(event: Event) -> Seconds:
    last = event.last_timestamp or event.metadata.creation_timestamp
    return last.timestamp() if last is not None else 0.0


def _newest(waiting: dict[_K, _V]) -> OrderedDict[_K, _V]:
    """Return the newest of what waits, at most `_MOST_PENDING`."""
    return OrderedDict(islice(waiting.items(), max(0, len(waiting) - _MOST_PENDING), None))
