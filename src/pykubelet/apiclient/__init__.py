"""The Kubernetes API: kubeconfig, requests, list and watch, patches, certificates.

Used by the node mode of the agent (``kubelet/compose/cluster.py`` makes the one :class:`ApiClient`); nothing here knows
the kubelet. Loaded only when there is an API server, since it brings aiohttp along.
"""

from pykubelet.apiclient.client import ApiClient, PatchKind, Select, Timeouts
from pykubelet.apiclient.errors import AlreadyExists, Expired, Forbidden, Unauthorized
from pykubelet.apiclient.kubeconfig import ClusterConfig, User, in_cluster, load_kubeconfig
from pykubelet.apiclient.limits import RateLimit
from pykubelet.apiclient.reflector import Query, Reflector
from pykubelet.apiclient.watch import Listing, WatchEvent, WatchType

__all__ = [
    "AlreadyExists",
    "ApiClient",
    "ClusterConfig",
    "Expired",
    "Forbidden",
    "Listing",
    "PatchKind",
    "Query",
    "RateLimit",
    "Reflector",
    "Select",
    "Timeouts",
    "Unauthorized",
    "User",
    "WatchEvent",
    "WatchType",
    "in_cluster",
    "load_kubeconfig",
]
