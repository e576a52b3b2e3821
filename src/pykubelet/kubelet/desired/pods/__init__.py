"""The pod manager: the desired pods of this node and their mirror pods.

The sync loop writes it; the servers, node mode and the sources of objects read it. ``manager.py`` has the pods,
``mirror.py`` and ``decide.py`` the mirror pods. Imports no other stage. Start reading in ``manager.py``.
"""

from pykubelet.kubelet.desired.pods.decide import is_mirror_of
from pykubelet.kubelet.desired.pods.manager import PodManager

__all__ = ["PodManager", "is_mirror_of"]
