"""Pod networks through CNI plugins (CNI specification 1.1, as a runtime): ADD, CHECK and DEL.

An attachment is recorded on disk before the first plugin runs and removed after the last successful DEL, so that an
address never leaks, whichever process dies in between. Called by ``sandbox``. Imports of the server: ``types``. Start
reading at ``network_manager.py``, then the rules in ``plan``.
"""

from pykubelet.criserver.cni.network_manager import NetworkConfig, NetworkManager
from pykubelet.criserver.cni.network_types import AttachRequest, HandlerNetworks, PodAddresses, PortMap

__all__ = ["AttachRequest", "HandlerNetworks", "NetworkConfig", "NetworkManager", "PodAddresses", "PortMap"]
