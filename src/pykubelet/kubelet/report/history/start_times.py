"""The times at which pods were started first, also before a restart of the agent."""

from collections.abc import Iterable, Mapping

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID


class StartTimes:
    """Start times by pod uid, as Unix time. Those of removed pods are forgotten: a pod listed again is a new one."""

    def __init__(self) -> None:
        self._known: dict[PodUID, Seconds] = {}
        self.forgotten: Callbacks[[PodUID]] = Callbacks()
        """Called with each pod that was removed."""

    def get(self, uid: PodUID) -> Seconds | None:
        """Return when the pod was started first; None: it is new."""
        return self._known.get(uid)

    def restore(self, known: Mapping[PodUID, Seconds]) -> None:
        """Add start times from an earlier run of the agent."""
        self._known = {**known, **self._known}

    def note(self, uid: PodUID, at: Seconds) -> bool:
        """Record a start; return whether it differs from what was known."""
        if self._known.get(uid) == at:
            return False
        self._known[uid] = at
        return True

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed. Idempotent."""
        self._known.pop(uid, None)
        self.forgotten(uid)

    def uids(self) -> Iterable[PodUID]:
        """Return the pods whose start is known."""
        return tuple(self._known)
