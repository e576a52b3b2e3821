"""The node's server on :10250 (kubelet API): pods, logs, exec, usage and metrics over HTTPS, for those allowed.

The API server calls it for ``kubectl logs``, ``exec``, ``attach`` and ``port-forward``; metrics-server and Prometheus
scrape it. The local API (``report/server``) is another server, for the machine's own administrator.
"""

from pykubelet.kubelet.report.nodeserver.manager import NodeServer
from pykubelet.kubelet.report.nodeserver.ports import (
    NodeRuntime,
    NodeServerConfig,
    NodeServerDeps,
    OwnMetrics,
    ReviewApi,
    StatsSource,
)
from pykubelet.kubelet.report.nodeserver.types import AuthConfig, CertFiles, TlsConfig

__all__ = [
    "AuthConfig",
    "CertFiles",
    "NodeRuntime",
    "NodeServer",
    "NodeServerConfig",
    "NodeServerDeps",
    "OwnMetrics",
    "ReviewApi",
    "StatsSource",
    "TlsConfig",
]
