"""The journal of decisions: the last ones about each pod, in memory, bounded in entries and bytes."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.recent_items import RecentItems
from pykubelet.base.units import KIB, Bytes, Seconds
from pykubelet.kubelet.report.explain.journal_types import Entry, PodJournal
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.decisions import Decision, Topic

MAX_PODS: Final = 512
MAX_ENTRIES: Final = 48
"""Per pod, and per sync."""
MAX_BYTES: Final = Bytes(8 * KIB)
"""Text of the entries of a pod, and of its last sync."""
_MAX_TEXT: Final = 1024
_Key: TypeAlias = tuple[Topic, str, str, str]


class _Pod(Struct):
    entries: OrderedDict[_Key, Entry] = field(default_factory=OrderedDict)
    size: int = 0
    synced_at: Seconds = 0.0
    last_sync: tuple[Decision, ...] = ()


class DecisionJournal:
    """Implements ``types.decisions.DecisionRecorder``.

    A decision that was taken before for the same reason moves to the newest place and is counted, so that a container
    that crashes for days does not push out how its pod was admitted. For one thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: RecentItems[PodUID, _Pod] = RecentItems(_Pod, most=MAX_PODS)

    def add(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        """Record decisions about a pod, in their order."""
        pod, now = self._pods.use(uid), self._clock.now()
        for decision in decisions:
            if not decision.idle:
                _add(pod, _short(decision), now)

    def synced(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        """Record all decisions of a sync; they replace those of the sync before as the last ones."""
        pod, now = self._pods.use(uid), self._clock.now()
        kept: list[Decision] = []
        size = 0
        for decision in decisions:
            short = _short(decision)
            size += _size(short)
            if len(kept) < MAX_ENTRIES and size <= MAX_BYTES:
                kept.append(short)
            if not short.idle:
                _add(pod, short, now)
        pod.synced_at, pod.last_sync = now, tuple(kept)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed. Idempotent."""
        self._pods.pop(uid, None)

    def of(self, uid: PodUID) -> PodJournal:
        """Return what is known of a pod; empty for an unknown one."""
        pod = self._pods.get(uid)
        if pod is None:
            return PodJournal()
        return PodJournal(tuple(reversed(pod.entries.values())), pod.synced_at, pod.last_sync)


def _add(pod: _Pod, decision: Decision, now: Seconds) -> None:
    key = (decision.topic, decision.subject, decision.action, decision.reason)
    known = pod.entries.pop(key, None)
    if known is not None:
        pod.size -= _size(known.decision)
    first_at, count = (known.first_at, known.count + 1) if known is not None else (now, 1)
    pod.entries[key] = Entry(decision, first_at, now, count)
    pod.size += _size(decision)
    while len(pod.entries) > 1 and (len(pod.entries) > MAX_ENTRIES or pod.size > MAX_BYTES):
        oldest = next((each for each in pod.entries if each[0] is not Topic.ADMISSION), None) or next(iter(pod.entries))
        pod.size -= _size(pod.entries.pop(oldest).decision)


def _short(decision: Decision) -> Decision:
    if len(decision.message) <= _MAX_TEXT and len(decision.reason) <= _MAX_TEXT:
        return decision
    return replace(decision, reason=decision.reason[:_MAX_TEXT], message=decision.message[:_MAX_TEXT])


def _size(decision: Decision) -> int:
    return len(decision.subject) + len(decision.action) + len(decision.reason) + len(decision.message)
