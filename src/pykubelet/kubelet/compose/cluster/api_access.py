"""Access to the API server: its clients, the objects that pods need, and the node's certificates.

Loaded only with a kubeconfig, since it imports the API client.
"""

from typing import TYPE_CHECKING

from pykubelet import KUBERNETES_VERSION
from pykubelet.apiclient import ApiClient, ClusterConfig, RotatedCertificate, Timeouts, load_kubeconfig
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.kubelet.config import ClusterSettings, Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects, PodChangeCallback
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.node.lease import renewal_period
from pykubelet.models.core_v1 import NodeAddress

if TYPE_CHECKING:
    from pykubelet.apiclient.certificates import CertificatePair
    from pykubelet.kubelet.compose.cluster.certificates import NodeCertificates


class ApiAccess:
    """The clients and objects of the API server; built before the stages, which use its objects."""

    def __init__(
        self, settings: Settings, *, local: Objects, touched: PodChangeCallback, metrics: KubeletMetrics, clock: Clock
    ) -> None:
        """``local`` has the objects of manifests; ``touched`` is called with pods whose objects have changed.

        Raises Invalid for a bad kubeconfig.
        """
        cluster = settings.cluster
        assert cluster is not None, "only made for a cluster"
        config, agent = settings.config, f"pykubelet/{KUBERNETES_VERSION}"
        self.settings = settings
        """The settings at the start."""
        self.cluster: ClusterSettings = cluster
        server = load_kubeconfig(cluster.kubeconfig)
        limit = RateLimit(config.kube_apiqps, config.kube_api_burst, clock=clock)
        rotated = _rotated(settings, server, clock)
        self.client = ApiClient(
            server, clock, limit=limit, agent=agent, observe=metrics.calls.api_request, rotated=rotated
        )
        # The heartbeat must not wait for other requests: it has a client, and so connections, of its own.
        patience = Timeouts(request=renewal_period(config.node_lease_duration_seconds))
        self.heart = ApiClient(
            server, clock, timeouts=patience, agent=agent, observe=metrics.calls.api_request, rotated=rotated
        )
        node = settings.node_name
        self.objects = ClusterObjects(client=self.client, node=node, local=local, touched=touched, clock=clock)
        self.certificates = _certificates(settings, self.client, server, metrics=metrics, clock=clock)

    def serving(self) -> "CertificatePair | None":
        """Return the serving certificate that the cluster has signed; None: the server signs its own."""
        return self.certificates.serving() if self.certificates is not None else None

    def addresses_seen(self, addresses: tuple[NodeAddress, ...]) -> None:
        """Handle the node's addresses of a status."""
        if self.certificates is not None:
            self.certificates.addresses_seen(addresses)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self.heart.close()


def _rotated(settings: Settings, server: ClusterConfig, clock: Clock) -> RotatedCertificate | None:
    cluster = settings.cluster
    if cluster is None or not settings.config.rotate_certificates:
        return None
    # Imported here, since cryptography needs much memory.
    from pykubelet.kubelet.compose.cluster.certificates import client_store, rotated_certificate

    return rotated_certificate(client_store(cluster, server), clock)


def _certificates(
    settings: Settings, client: ApiClient, server: ClusterConfig, *, metrics: KubeletMetrics, clock: Clock
) -> "NodeCertificates | None":
    config = settings.config
    renewed = {"client": config.rotate_certificates, "server": config.server_tls_bootstrap}
    recorders = {which: metrics.certificate_renewals(which) for which, wanted in renewed.items() if wanted}
    if not recorders:
        return None
    from pykubelet.kubelet.compose.cluster.certificates import NodeCertificates

    made = NodeCertificates(settings=settings, client=client, server=server, observers=recorders, clock=clock)
    for which, left in made.seconds_left().items():
        recorders[which].export_ttl(left)
    return made
