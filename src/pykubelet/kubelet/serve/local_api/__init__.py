"""The local API server over a unix socket, with the values of ``serve/common`` that its callers need.

The server reads what the rest of this stage keeps (pods with their statuses, events, timelines) and log files; the CLI
and kubectl are its clients. Start reading in ``local_server.py``; ``kube_routes.py`` and ``agent_routes.py`` hold the
handlers, and ``kubelet/serve/common/serving.py`` puts limits, routes and request slots together. Access is
decided by the permissions of the socket. Imports beside it: ``common``, ``logs``, ``streams``.
"""

from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck, HttpMeter
from pykubelet.kubelet.serve.common.server_types import (
    ImageView,
    ManifestsView,
    ManifestView,
    ProblemView,
    PullView,
    VersionView,
)
from pykubelet.kubelet.serve.local_api.local_interfaces import AgentView, LocalConfig, LocalDeps
from pykubelet.kubelet.serve.local_api.local_server import LocalServer

__all__ = [
    "AgentView",
    "HealthCheck",
    "HttpMeter",
    "ImageView",
    "LocalConfig",
    "LocalDeps",
    "LocalServer",
    "ManifestView",
    "ManifestsView",
    "PodsView",
    "ProblemView",
    "PullView",
    "VersionView",
]
