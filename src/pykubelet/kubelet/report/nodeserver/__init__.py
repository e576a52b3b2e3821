"""The kubelet API server on :10250: pods, logs, exec, usage and metrics over HTTPS, for authorized clients.

The API server calls it for ``kubectl logs``, ``exec``, ``attach`` and ``port-forward``; metrics-server and Prometheus
scrape it. The local API (``report/server``) is another server, for the machine's own administrator, and shares the HTTP
code with this one.

Start reading in ``manager.py`` (which routes are served), then ``access.py`` (authentication and authorization of every
request).
"""

from pykubelet.kubelet.report.nodeserver.interfaces import (
    AgentMetrics,
    EffectiveConfig,
    NodeRuntime,
    NodeServerConfig,
    NodeServerDeps,
    ReviewApi,
    StatsSource,
)
from pykubelet.kubelet.report.nodeserver.manager import NodeServer
from pykubelet.kubelet.report.nodeserver.types import AuthConfig, CertFiles, TlsConfig

__all__ = [
    "AgentMetrics",
    "AuthConfig",
    "CertFiles",
    "EffectiveConfig",
    "NodeRuntime",
    "NodeServer",
    "NodeServerConfig",
    "NodeServerDeps",
    "ReviewApi",
    "StatsSource",
    "TlsConfig",
]
