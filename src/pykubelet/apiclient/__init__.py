"""Client of the Kubernetes API: kubeconfig, requests, list and watch, patches, certificates.

The agent uses it in node mode (``kubelet/compose/cluster/build.py`` creates the one :class:`ApiClient`). It imports
``models`` and ``base`` only and does not depend on the kubelet. It is loaded only when there is an API server, because
aiohttp costs memory.

Start reading in ``client.py`` for requests, ``reflector.py`` for objects that are kept up to date, ``certificates`` for
the node's own certificates.
"""

from pykubelet.apiclient.client import ApiClient, PatchKind, Timeouts
from pykubelet.apiclient.credentials import RotatedCertificate
from pykubelet.apiclient.errors import AlreadyExists, Expired, Forbidden, ServerError, Unauthorized
from pykubelet.apiclient.kubeconfig import ClusterConfig, User, load_kubeconfig
from pykubelet.apiclient.reflector import Query, Reflector
from pykubelet.apiclient.select import ObjectSelector
from pykubelet.apiclient.watch import Listing, WatchEvent, WatchType

__all__ = [
    "AlreadyExists",
    "ApiClient",
    "ClusterConfig",
    "Expired",
    "Forbidden",
    "Listing",
    "ObjectSelector",
    "PatchKind",
    "Query",
    "Reflector",
    "RotatedCertificate",
    "ServerError",
    "Timeouts",
    "Unauthorized",
    "User",
    "WatchEvent",
    "WatchType",
    "load_kubeconfig",
]
