"""The agent's configuration, read from a KubeletConfiguration v1beta1 file, a drop-in directory and flags.

Imports ``models`` and ``base``, and no stage. Start reading in ``settings.py``; the fields are in ``v1beta1.py``.
"""

from pykubelet.kubelet.config.feature_gates import gate_is_on, unusable_gates
from pykubelet.kubelet.config.load import load_configuration
from pykubelet.kubelet.config.plan.field_effects import without_effect
from pykubelet.kubelet.config.settings import ClusterSettings, Settings
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

__all__ = [
    "ClusterSettings",
    "KubeletConfiguration",
    "Settings",
    "gate_is_on",
    "load_configuration",
    "unusable_gates",
    "without_effect",
]
