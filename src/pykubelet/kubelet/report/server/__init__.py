"""HTTP servers: the local API over a unix socket, /healthz and /metrics over TCP, and what all servers share.

The servers read what the rest of this stage keeps (pods with their statuses, events, timelines) and log files; the CLI,
kubectl and Prometheus are their clients. Start reading in ``serving.py``: it puts an application together from limits,
access check, routes and request slots. ``kube_routes.py`` and ``agent_routes.py`` hold the local API's handlers.
"""

from pykubelet.kubelet.report.server.health import HealthServer
from pykubelet.kubelet.report.server.interfaces import (
    HealthCheck,
    HealthConfig,
    HealthDeps,
    HttpMeter,
    LocalConfig,
    LocalDeps,
    Node,
    Streams,
)
from pykubelet.kubelet.report.server.local import LocalServer
from pykubelet.kubelet.report.server.pods_view import PodsView
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
