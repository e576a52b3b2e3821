"""Composition of the client and serving certificates that the cluster signs for this node."""

from collections.abc import Callable, Coroutine
from functools import partial

from pykubelet.apiclient import ApiClient
from pykubelet.apiclient.certificates import (
    BootstrapConfig,
    CertificateManager,
    CertificatePair,
    CertificateStore,
    Template,
    bootstrap,
    client_template,
    needs_bootstrap,
    serving_template,
)
from pykubelet.apiclient.certificates.bootstrap import CLIENT_PREFIX
from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import Settings

SERVER_PREFIX = "kubelet-server"


class NodeCertificates:
    """Renewal of the client certificate (``rotateCertificates``) and the serving one (``serverTLSBootstrap``)."""

    def __init__(self, *, settings: Settings, client: ApiClient, clock: Clock) -> None:
        assert settings.cluster is not None
        config, pki = settings.config, settings.cluster.cert_dir
        self._managers: dict[str, CertificateManager] = {}
        if config.rotate_certificates:
            store = CertificateStore(pki, CLIENT_PREFIX)
            identity = partial(client_template, settings.node_name)
            self._managers["client-certificate"] = CertificateManager(
                client=client, store=store, template=identity, clock=clock
            )
        self._server: CertificateManager | None = None
        if config.server_tls_bootstrap:
            store = CertificateStore(pki, SERVER_PREFIX)
            self._server = CertificateManager(
                client=client, store=store, template=partial(_serving, settings), clock=clock
            )
            self._managers["serving-certificate"] = self._server

    def serving(self) -> CertificatePair | None:
        """Return the serving certificate, or None while the cluster has not signed one."""
        return self._server.current() if self._server is not None else None

    def seconds_left(self) -> dict[str, Callable[[], Seconds]]:
        """Return, for each renewed certificate (``client``, ``server``), a function of the seconds until it expires."""
        return {name.replace("serving", "server").split("-")[0]: m.seconds_left for name, m in self._managers.items()}

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {name: manager.run() for name, manager in self._managers.items()}


async def bootstrap_if_needed(settings: Settings, clock: Clock) -> None:
    """Request the first client certificate if it does not exist, and wait until the cluster has signed it."""
    cluster = settings.cluster
    if cluster is None or cluster.bootstrap_kubeconfig is None or not needs_bootstrap(cluster.kubeconfig, clock):
        return
    place = BootstrapConfig(settings.node_name, cluster.kubeconfig, cluster.bootstrap_kubeconfig, cluster.cert_dir)
    await bootstrap(place, clock)


def _serving(settings: Settings) -> Template | None:
    if not settings.node_ips:
        return None
    return serving_template(settings.node_name, [settings.node_name], settings.node_ips)
