"""pykubelet: a Kubernetes node agent (kubelet) and a CRI runtime server in Python."""

__version__ = "0.1.0"
KUBERNETES_VERSION = "v1.36.0"
"""What it is the kubelet of; told to the API server and by ``run --version``."""
