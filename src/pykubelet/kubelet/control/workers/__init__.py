"""Pod workers: one task and one coalescing mailbox per pod, called by the sync loop.

``plan/lifecycle.py`` is the state machine (pure), ``steps.py`` what each phase does, ``pod_worker.py`` the task of one
pod and ``worker_set.py`` the set of workers, which starts static pods of one name in order; others read and fail pods
through ``worker_table.py``. Imports no other stage. Start reading in ``plan/lifecycle.py``.
"""

from pykubelet.kubelet.control.workers.worker_set import PodWorkers
from pykubelet.kubelet.control.workers.worker_table import WorkerTable

__all__ = ["PodWorkers", "WorkerTable"]
