"""The status of every pod: computed by a pure function, kept in memory, sent to the API server.

The pod workers call the status manager at every step (``update``), admission when it rejects a pod (``reject``); the
servers read it, and ``StatusPatcher`` delivers its changes to the API server. Start reading in ``decide.py``.
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
