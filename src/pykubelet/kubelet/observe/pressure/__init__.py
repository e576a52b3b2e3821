"""Pressure: what the node runs short of, and which pod has to go for it.

Built by ``main.py``; admission and the node's status ask it for the conditions. Every ten seconds it looks at the
machine's memory, disks and process ids, which costs next to nothing; only when a threshold is met, or pods with limits
of local storage run, does it ask what each pod uses. ``decide.py`` has thresholds and conditions, ``decide_rank.py``
the order in which pods go and what they are told, ``decide_limits.py`` the limits of single pods.
"""

from pykubelet.kubelet.observe.pressure.interfaces import PressureDeps
from pykubelet.kubelet.observe.pressure.manager import Pressure
from pykubelet.kubelet.observe.pressure.types import Condition, PressureConfig

__all__ = ["Condition", "Pressure", "PressureConfig", "PressureDeps"]
