"""User namespaces of pods with ``hostUsers: false`` (KEP-127): allocation of id ranges of the node.

Every pod gets a range of its own, so that a process that escapes from a pod has no permissions in other pods and on the
node. The pod runtime allocates it before a sandbox is created; it is released when no process of the pod is left.
Imports of this stage: ``cri_messages``. Start reading in ``id_range_manager.py``; ``plan/id_ranges.py`` is pure.
"""

from pykubelet.kubelet.actuate.userns.id_range_manager import IdRangeManager, UserNamespaceConfig
from pykubelet.kubelet.actuate.userns.plan.id_ranges import IdPool

__all__ = ["IdPool", "IdRangeManager", "UserNamespaceConfig"]
