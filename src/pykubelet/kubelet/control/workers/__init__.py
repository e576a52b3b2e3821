"""Pod workers: one task and one coalescing mailbox per pod, called by the sync loop.

``decide.py`` is the state machine (pure), ``steps.py`` what each phase does, ``worker.py`` the task of one pod and
``manager.py`` the set of workers, which starts static pods of one name in order. Imports no other stage. Start
reading in ``decide.py``.
"""

from pykubelet.kubelet.control.workers.manager import PodWorkers

__all__ = ["PodWorkers"]
