"""Node pressure and eviction: which resource is short on the node, and which pod is evicted for it.

Admission and the node's status read its conditions. Every ten seconds it reads the machine's memory, disks and process
ids, which is cheap; only when a threshold is met, or pods with limits of local storage run, does it read the usage of
each pod. ``plan/thresholds.py`` has thresholds and conditions, ``plan/ranking.py`` the order of eviction and its
messages, ``plan/local_limits.py`` the local storage limits of single pods, ``plan/reclaimable.py`` what may be removed
without an eviction. Imports no other stage. Start reading in ``eviction_manager.py``.
"""

from pykubelet.kubelet.observe.eviction.eviction_interfaces import EvictionDeps
from pykubelet.kubelet.observe.eviction.eviction_manager import EvictionManager
from pykubelet.kubelet.observe.eviction.eviction_types import EvictionConfig, PressureCondition

__all__ = ["EvictionConfig", "EvictionDeps", "EvictionManager", "PressureCondition"]
