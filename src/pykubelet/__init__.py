"""pykubelet: a Kubernetes node agent (kubelet) and a CRI runtime server in Python."""

__version__ = "0.1.0"
