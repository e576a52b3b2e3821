"""The status of every pod: computed by a pure function, kept in memory, sent to the API server.

The pod workers call the status manager at every step (``update``), admission when it rejects a pod (``reject``); the
servers read it, and ``StatusPatcher`` delivers its changes to the API server. Start reading in ``plan/pod_status.py``.
Imports no package beside it.
"""

from pykubelet.kubelet.report.status.plan.pod_status import compute_pod_status, rejected_status
from pykubelet.kubelet.report.status.status_manager import StatusManager
from pykubelet.kubelet.report.status.status_types import StatusContext, StatusEntry

__all__ = [
    "StatusContext",
    "StatusEntry",
    "StatusManager",
    "compute_pod_status",
    "rejected_status",
]
