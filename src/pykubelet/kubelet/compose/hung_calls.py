"""Events for pods whose blocking calls (on volumes, logs, the cgroup) are not responding."""

from collections.abc import Callable

from pykubelet.base.concurrency.thread_calls import Hung
from pykubelet.kubelet.report.events.plan.hung_calls import hung_message, pod_of_call
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
        uid = pod_of_call(hung.owner)
        pod = self._by_uid(uid) if uid is not None else None
        if pod is not None:
            message = hung_message(hung.owner, hung.deadline)
            self._events.event(ref_of(pod), WARNING, Reason.FAILED_SYNC, message)
