"""The servers: the local API over a unix socket, and /healthz and /metrics over TCP.

They read what the rest of this stage keeps (pods with their statuses, events, the timeline) and log files; the CLI,
kubectl and Prometheus call them.
"""

from pykubelet.kubelet.report.server.health import HealthServer
from pykubelet.kubelet.report.server.local import LocalServer
from pykubelet.kubelet.report.server.pods_view import PodsView
from pykubelet.kubelet.report.server.ports import (
    HealthCheck,
    HealthConfig,
    HealthDeps,
    HttpMeter,
    LocalConfig,
    LocalDeps,
    Node,
    Streams,
)
from pykubelet.kubelet.report.server.types import (
    ImageView,
    JournalView,
    ObjectView,
    ProblemView,
    StreamOptions,
    VersionView,
)

__all__ = [
    "HealthCheck",
    "HealthConfig",
    "HealthDeps",
    "HealthServer",
    "HttpMeter",
    "ImageView",
    "JournalView",
    "LocalConfig",
    "LocalDeps",
    "LocalServer",
    "Node",
    "ObjectView",
    "PodsView",
    "ProblemView",
    "StreamOptions",
    "Streams",
    "VersionView",
]
