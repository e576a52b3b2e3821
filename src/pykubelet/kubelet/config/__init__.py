"""The agent's configuration: a KubeletConfiguration v1beta1 file, a drop-in directory and flags → one frozen value."""

from pykubelet.kubelet.config.effective import without_effect
from pykubelet.kubelet.config.load import load_configuration
from pykubelet.kubelet.config.settings import ClusterSettings, Settings
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

__all__ = ["ClusterSettings", "KubeletConfiguration", "Settings", "load_configuration", "without_effect"]
