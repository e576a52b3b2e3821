"""Access to the API server: its clients, the objects that pods need, and the node's certificates.

Loaded only with a kubeconfig, since it imports the API client.
"""

from typing import TYPE_CHECKING

from pykubelet import KUBERNETES_VERSION
from pykubelet.apiclient import ApiClient, Timeouts, load_kubeconfig
from pykubelet.base.clock import Clock
from pykubelet.base.rate_limit import RateLimit
from pykubelet.kubelet.config import ClusterSettings, Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects, PodsChanged
from pykubelet.kubelet.report.metrics import KubeletMetrics

if TYPE_CHECKING:
    from pykubelet.apiclient.certificates import CertificatePair
    from pykubelet.kubelet.compose.certificates import NodeCertificates


class ApiAccess:
    """The clients and objects of the API server; built before the stages, which use its objects."""

    def __init__(
        self, settings: Settings, *, local: Objects, touched: PodsChanged, metrics: KubeletMetrics, clock: Clock
    ) -> None:
        """``local`` has the objects of manifests; ``touched`` is called with pods whose objects have changed.

        Raises Invalid for a bad kubeconfig.
        """
        cluster = settings.cluster
        assert cluster is not None, "only made for a cluster"
        config, agent = settings.config, f"pykubelet/{KUBERNETES_VERSION}"
        self.cluster: ClusterSettings = cluster
        server = load_kubeconfig(cluster.kubeconfig)
        limit = RateLimit(config.kube_apiqps, config.kube_api_burst, clock=clock)
        self.client = ApiClient(server, clock, limit=limit, agent=agent, observe=metrics.api_request)
        # The heartbeat must not wait for other requests: it has a client, and so connections, of its own.
        patience = Timeouts(request=config.node_lease_duration_seconds / 4)
        self.heart = ApiClient(server, clock, timeouts=patience, agent=agent, observe=metrics.api_request)
        self.objects = ClusterObjects(client=self.client, local=local, touched=touched, clock=clock)
        self.certificates = _certificates(settings, self.client, clock)
        if self.certificates is not None:
            for which, left in self.certificates.seconds_left().items():
                metrics.certificate_ttl(which, left)

    def serving(self) -> "CertificatePair | None":
        """Return the serving certificate that the cluster has signed; None: the server signs its own."""
        return self.certificates.serving() if self.certificates is not None else None

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self.heart.close()


def _certificates(settings: Settings, client: ApiClient, clock: Clock) -> "NodeCertificates | None":
    if not (settings.config.rotate_certificates or settings.config.server_tls_bootstrap):
        return None
    # Imported here, since cryptography needs much memory.
    from pykubelet.kubelet.compose.certificates import NodeCertificates

    return NodeCertificates(settings=settings, client=client, clock=clock)
