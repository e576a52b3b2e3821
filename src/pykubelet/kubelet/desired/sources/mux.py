"""Merges the sources into one stream of pod updates, and records which sources have been read."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from pykubelet.base.clock import Clock
from pykubelet.kubelet.desired.sources.plan.effective_manifests import MergedPods, merge
from pykubelet.kubelet.desired.sources.source_interfaces import PodSink
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import Pod


class PodMux:
    """The merge of the sources: each passes all its pods, and the sink receives the changes in order.

    Before :meth:`all_ready`, orphaned pods must not be cleaned up: a source that has not been read yet may list them.
    Use it from the event loop's thread only; never blocks.
    """

    def __init__(self, *, sources: Iterable[Source], sink: PodSink, clock: Clock) -> None:
        self._expected = frozenset(sources)
        self._sink = sink
        self._clock = clock
        self._merged: dict[Source, MergedPods] = {}
        self._unread: dict[Source, AbstractSet[PodUID]] = {}

    def set(self, source: Source, pods: Sequence[Pod], unread: AbstractSet[PodUID] = frozenset()) -> None:
        """Replace all pods of a source; ``unread`` are further ones that it has but cannot read."""
        if source not in self._expected:
            raise ValueError(f"the source {source.value!r} was not announced")
        seen = datetime.fromtimestamp(self._clock.now(), UTC).isoformat().replace("+00:00", "Z")
        merged = merge(self._merged.get(source), pods, source, seen)
        self._merged[source] = merged
        self._unread[source] = unread
        for update in merged.updates:
            self._sink(update)

    def all_ready(self) -> bool:
        """Whether every source has been read at least once."""
        return self._expected <= self._merged.keys()

    def unread(self) -> frozenset[PodUID]:
        """Return the pods that exist but that their source cannot read: what runs of them is no orphan."""
        return frozenset().union(*self._unread.values())
