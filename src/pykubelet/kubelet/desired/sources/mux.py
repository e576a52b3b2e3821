"""Merges the sources into one stream of pod updates, and records which sources have been read."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

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
        self._unread: dict[Source, Mapping[PodUID, datetime | None]] = {}

    def set(
        self, source: Source, pods: Sequence[Pod], unread: Mapping[PodUID, datetime | None] = MappingProxyType({})
    ) -> None:
        """Replace all pods of a source.

        ``unread`` are further ones that it has but cannot read, with the time at which their deletion is due, if any.
        """
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

    def uids(self) -> frozenset[PodUID]:
        """Return the pods that the sources have, also those whose updates the sink has not handled yet.

        What runs of them is no orphan, even if they cannot be read, until their deletion is due: a pod that cannot be
        read has no worker that would end it.
        """
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        unread = (uid for each in self._unread.values() for uid, due in each.items() if due is None or due > now)
        return frozenset(unread).union(*(each.pods for each in self._merged.values()))
