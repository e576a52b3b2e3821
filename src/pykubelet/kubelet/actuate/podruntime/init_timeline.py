"""Tells the timeline how long init containers take: from their start to the sync that sees their end."""

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.kubelet.types.timeline import Step, Timeline


class InitTimeline:
    """The init containers that were started and have not been seen to end."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._waiting: dict[PodUID, set[str]] = {}

    def begin(self, uid: PodUID, name: str) -> None:
        """One was started."""
        self._waiting.setdefault(uid, set()).add(name)
        self._timeline.begin(uid, Step.INIT, name)

    def look(self, status: PodRuntimeStatus) -> None:
        """The pod's state was read."""
        waiting = self._waiting.get(status.uid)
        if not waiting:
            return
        for name in tuple(waiting):
            attempt = status.latest(name)
            if attempt is not None and attempt.state is ContainerState.EXITED:
                error = f"exit code {attempt.exit_code}" if attempt.exit_code else ""
                self._timeline.end(status.uid, Step.INIT, name, error)
                waiting.discard(name)
        if not waiting:
            del self._waiting[status.uid]

    def forget(self, uid: PodUID) -> None:
        """The pod is gone."""
        self._waiting.pop(uid, None)
