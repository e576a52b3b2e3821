"""Events for pods whose blocking calls (on volumes, logs, the cgroup) are not responding."""

from collections.abc import Callable

from pykubelet.base.concurrency.thread_calls import Hung
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder, Reason
from pykubelet.models.core_v1 import Pod


class HungCalls:
    """The listener for ``blocking.on_hung``."""

    def __init__(self, by_uid: Callable[[PodUID], Pod | None], events: EventRecorder) -> None:
        self._by_uid = by_uid
        self._events = events

    def __call__(self, hung: Hung) -> None:
        """Record an event of the pod. Calls of components and of removed pods are only logged and counted elsewhere."""
        kind, _, rest = hung.owner.partition("/")
        uid, _, part = rest.partition("/")
        pod = self._by_uid(PodUID(uid)) if kind == "pod" else None
        if pod is None:
            return
        what = f"{part} of the pod" if part else "files of the pod"
        self._events.event(
            ref_of(pod),
            WARNING,
            Reason.FAILED_SYNC,
            f"error syncing the pod: work on {what} has not ended within {hung.deadline:g} s; "
            "a file system or device may not be responding",
        )
