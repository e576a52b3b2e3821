"""Pod workers: one task and one coalescing mailbox per pod; called by the sync loop.

``decide.py`` is the machine (pure), ``steps.py`` what each phase does, ``worker.py`` the task of one pod and
``manager.py`` all of them, static pods of one name in their order.
"""

from pykubelet.kubelet.control.workers.manager import PodWorkers

__all__ = ["PodWorkers"]
