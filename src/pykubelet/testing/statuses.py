"""A status manager whose statuses a test sets as they are, instead of having them computed."""

from pykubelet.kubelet.report.status import StatusManager
from pykubelet.models.core_v1 import Pod, PodStatus


class SettableStatuses(StatusManager):
    """The agent's part only computes statuses, from what the pod workers tell."""

    def set(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Keep a status, corrected so that it may follow on the one before; return the status that is kept."""
        return self._keep(pod, status)
