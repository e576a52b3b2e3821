"""User namespaces of pods with ``hostUsers: false`` (KEP-127): which ids of the node each of them has.

Every pod gets a range of its own, so that a process that breaks out of one pod is nobody in all others and on the
node. The pod runtime asks for it before a sandbox is made; it is given back when nothing of the pod runs any more.
"""

from pykubelet.kubelet.actuate.userns.decide import IdPool
from pykubelet.kubelet.actuate.userns.manager import UserNamespaceConfig, UserNamespaces

__all__ = ["IdPool", "UserNamespaceConfig", "UserNamespaces"]
