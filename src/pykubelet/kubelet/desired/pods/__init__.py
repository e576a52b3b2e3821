"""The pod manager: the desired pods of this node and their mirror pods.

The sync loop writes it; the servers, node mode and the sources of objects read it. ``pod_manager.py`` has the pods,
``mirror_pods.py`` and ``plan/mirror_changes.py`` the mirror pods. Imports no other stage. Start reading in
``pod_manager.py``.
"""

from pykubelet.kubelet.desired.pods.plan.mirror_changes import is_mirror_of
from pykubelet.kubelet.desired.pods.pod_manager import PodManager, current_mirror

__all__ = ["PodManager", "current_mirror", "is_mirror_of"]
