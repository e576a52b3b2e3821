"""The pod manager: the desired pods of this node, as the sync loop was told.

Written by ``control.sync``, read by the server, the CLI's socket and the wiring of objects to their pods.
"""

from pykubelet.kubelet.desired.pods.manager import PodManager, is_mirror_of

__all__ = ["PodManager", "is_mirror_of"]
