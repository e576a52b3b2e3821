"""The status of every pod: computed as a pure function, kept in memory, told to subscribers.

Called by the pod workers at every step (``update``) and by admission (``reject``); read by the local API server and by
whatever watches pods.
"""

from pykubelet.kubelet.report.status.decide import compute_pod_status, rejected_status
from pykubelet.kubelet.report.status.manager import StatusManager
from pykubelet.kubelet.report.status.types import StatusChange, StatusContext, StatusEntry

__all__ = [
    "StatusChange",
    "StatusContext",
    "StatusEntry",
    "StatusManager",
    "compute_pod_status",
    "rejected_status",
]
