"""Records the durations of init containers in the timeline: from their start to the sync that sees their exit."""

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.timeline import Step, Timeline
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus


class InitTimeline:
    """Init containers that were started and whose exit was not seen yet."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._waiting: dict[PodUID, set[str]] = {}

    def begin(self, uid: PodUID, name: str) -> None:
        """Record the start of an init container."""
        self._waiting.setdefault(uid, set()).add(name)
        self._timeline.begin(uid, Step.INIT, name)

    def observe(self, status: PodRuntimeStatus) -> None:
        """Record the exits of init containers that ``status``, just read, shows."""
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
        """Forget a pod that was removed."""
        self._waiting.pop(uid, None)
