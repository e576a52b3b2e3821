"""The status of every pod: computed by a pure function, kept in memory, sent to the API server.

The status manager owns the status of each pod: nothing else changes it. The pod workers call it at every step
(``update``) and at the end of a pod (``terminate``, ``remove``), the worker set for a pod that admission rejects
(``reject``), and the watch of mirror pods with what the API server has of a static pod (``mirror_seen``). The servers
of stage ``serve`` read it, and ``StatusPatcher`` delivers its changes to the API server. Start reading in
``status_manager.py``, for the computation in ``plan/pod_status.py``. Imports no package beside it.
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
