"""Networks by CNI plugins (the CNI specification 1.1, as a runtime): ADD, CHECK, DEL, results kept until DEL succeeded.

An attachment is noted on disk before the first plugin runs and forgotten after the last DEL, so that an address is
never lost, whatever dies in between.
"""

from pykubelet.criserver.cni.manager import Network, NetworkConfig
from pykubelet.criserver.cni.types import Attached, AttachRequest, PortMap

__all__ = ["AttachRequest", "Attached", "Network", "NetworkConfig", "PortMap"]
