"""The pod manager: the desired pods of this node, as the sync loop was told.

Written by ``control.sync``, read by the server, the CLI's socket and the wiring of objects to their pods.
"""

from pykubelet.kubelet.desired.pods.decide import is_mirror_of
from pykubelet.kubelet.desired.pods.manager import PodManager

__all__ = ["PodManager", "is_mirror_of"]
