"""pykubelet: a Kubernetes node agent (kubelet) and a CRI runtime server in Python."""

__version__ = "0.1.0"
KUBERNETES_VERSION = "v1.36.0"
"""The Kubernetes version of the kubelet, as reported to the API server and by ``run --version``."""
