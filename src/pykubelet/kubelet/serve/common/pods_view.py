"""The pods as the servers show them: desired pods merged with the statuses of the status manager."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.watch_table import WatchTable
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod, PodStatus

_NEW = PodStatus(phase="Pending")


class ReportedPod(Protocol):
    """A pod as it is reported to clients."""

    @property
    def merged(self) -> Pod:
        """The pod with its present status."""


class PodStatuses(Protocol):
    """The statuses of all pods (implemented in ``report/status``)."""

    def entry(self, uid: PodUID) -> ReportedPod | None:
        """Return what is known of a pod; None if it is unknown."""

    def subscribe(self, subscriber: Callable[[StatusChange], None]) -> Callable[[], None]:
        """Call ``subscriber`` with every change from now on; return the function that unsubscribes."""


class PodsView:
    """A watchable table of pods by uid. A pod is in it while it is desired or has a status.

    ``desired`` returns the pods that the sources want.
    """

    def __init__(self, *, statuses: PodStatuses, desired: Callable[[], Iterable[Pod]], clock: Clock) -> None:
        self._statuses = statuses
        self._desired = desired
        self._without_status: set[PodUID] = set()
        self.table: WatchTable[Pod] = WatchTable(int(clock.now() * 1000), size=_size)
        statuses.subscribe(self._on_change)

    def list(self) -> tuple[Pod, ...]:
        """Return all pods by namespace and name."""
        pods = (change.value for change in self.table.changes())
        return tuple(sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name)))

    def iterate(self) -> Iterator[Pod]:
        """Yield the pods of `list`, each as it is when it is asked for, without those removed by then; holds none."""
        order = sorted((*_key(change.value), PodUID(change.key)) for change in self.table.changes())
        for _, _, uid in order:
            pod = self.table.get(uid)
            if pod is not None:
                yield pod

    def get(self, uid: PodUID) -> Pod | None:
        """Return the pod of a uid; None if it is unknown."""
        return self.table.get(uid)

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the pod of that name; of several incarnations one that is not stopped, else the newest."""
        found = [c for c in self.table.changes() if _key(c.value) == (namespace, name)]
        found.sort(key=lambda c: (c.value.metadata.deletion_timestamp is None, c.created))
        return found[-1].value if found else None

    def refresh(self) -> None:
        """Update the table after a change of the desired pods. Cheap enough to call for every change."""
        wanted = {ref_of(pod).uid: pod for pod in self._desired()}
        for uid in self._without_status - wanted.keys():
            self._without_status.discard(uid)
            self.table.delete(uid)
        for uid, pod in wanted.items():
            if uid not in self.table:
                self._without_status.add(uid)
                self._put(uid, replace(pod, status=_NEW))

    def _on_change(self, change: StatusChange) -> None:
        uid = change.uid
        entry = self._statuses.entry(uid)
        self._without_status.discard(uid)
        if entry is None:
            self.table.delete(uid)
        else:
            self._put(uid, entry.merged)

    def _put(self, uid: PodUID, pod: Pod) -> None:
        def versioned(version: int) -> Pod:
            meta = replace(pod.metadata, resource_version=str(version))
            return replace(pod, api_version="v1", kind="Pod", metadata=meta)

        self.table.put(uid, versioned)


def _size(pod: Pod) -> int:
    return len(codec.encode(pod))


def _key(pod: Pod) -> tuple[str, str]:
    ref = ref_of(pod)
    return ref.namespace, ref.name
