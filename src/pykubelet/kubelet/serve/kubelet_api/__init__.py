"""The kubelet API server on :10250: pods, logs, exec, usage and metrics over HTTPS, for authorized clients.

The API server calls it for ``kubectl logs``, ``exec``, ``attach`` and ``port-forward``; metrics-server and Prometheus
scrape it. The local API (``serve/local_api``) is another server, for the machine's own administrator, and shares
the HTTP code with this one.

Start reading in ``kubelet_api_server.py`` (which routes are served); ``routes`` has their handlers, ``access``
authenticates and authorizes every request. Imports beside it: ``common``, ``logs``, ``streams``.
"""

from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import (
    AgentMetrics,
    EffectiveConfig,
    KubeletApiServerConfig,
    KubeletApiServerDeps,
    NodeRuntime,
    ReviewApi,
    StatsSource,
)
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_server import KubeletApiServer
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import AuthConfig, CertFiles, TlsConfig
from pykubelet.kubelet.serve.kubelet_api.plan.ciphers import ciphers, minimum_version
from pykubelet.kubelet.serve.kubelet_api.tls_contexts import check_certificate, check_client_ca

__all__ = [
    "AgentMetrics",
    "AuthConfig",
    "CertFiles",
    "EffectiveConfig",
    "KubeletApiServer",
    "KubeletApiServerConfig",
    "KubeletApiServerDeps",
    "NodeRuntime",
    "ReviewApi",
    "StatsSource",
    "TlsConfig",
    "check_certificate",
    "check_client_ca",
    "ciphers",
    "minimum_version",
]
