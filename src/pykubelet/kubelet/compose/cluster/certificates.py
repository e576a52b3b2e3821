"""Composition of the client and serving certificates that the cluster signs for this node."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pykubelet.apiclient import ApiClient, ClusterConfig, RotatedCertificate, load_kubeconfig
from pykubelet.apiclient.certificates import (
    BootstrapConfig,
    CertificateManager,
    CertificatePair,
    CertificateStore,
    RenewalObserver,
    Template,
    bootstrap,
    client_template,
    needs_bootstrap,
    serving_template,
)
from pykubelet.apiclient.certificates.bootstrap import CLIENT_PREFIX
from pykubelet.apiclient.certificates.plan.node_names import names_and_ips
from pykubelet.apiclient.certificates.plan.renewal import is_valid
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import ClusterSettings, Settings
from pykubelet.models.core_v1 import NodeAddress

_log = logging.getLogger(__name__)
SERVER_PREFIX: Final = "kubelet-server"
_CLIENT, _SERVING = "client-certificate", "serving-certificate"
_NAMES: Final = {_CLIENT: "client", _SERVING: "server"}
"""As the metrics name them."""


def client_store(cluster: ClusterSettings, server: ClusterConfig) -> CertificateStore:
    """Return the store of the client certificate, which begins with the files that the kubeconfig names."""
    user = server.user
    files = CertificatePair(Path(user.certificate.file), Path(user.key.file or user.certificate.file))
    return CertificateStore(cluster.cert_dir, CLIENT_PREFIX, initial=files if user.certificate.file else None)


def rotated_certificate(store: CertificateStore, clock: Clock) -> RotatedCertificate:
    """Return the stored client certificate as the API client uses it."""
    return RotatedCertificate(store.current, partial(_usable, store, clock))


def _usable(store: CertificateStore, clock: Clock) -> bool:
    found = store.stored()
    return is_valid(found.validity if found is not None else None, clock.now())


class NodeCertificates:
    """Renewal of the client certificate (``rotateCertificates``) and the serving one (``serverTLSBootstrap``)."""

    def __init__(
        self,
        *,
        settings: Settings,
        client: ApiClient,
        server: ClusterConfig,
        observers: Mapping[str, RenewalObserver],
        clock: Clock,
    ) -> None:
        """``server`` is what the kubeconfig says; ``observers`` has the metrics of the renewed ones."""
        assert settings.cluster is not None
        config, self._cluster, self._clock = settings.config, settings.cluster, clock
        self._name = settings.node_name
        self._addresses: tuple[NodeAddress, ...] = ()
        self._managers: dict[str, CertificateManager] = {}
        self._needs_client = server.user.has_only_certificate
        if config.rotate_certificates:
            self._managers[_CLIENT] = CertificateManager(
                client=client,
                store=client_store(settings.cluster, server),
                template=partial(client_template, settings.node_name),
                clock=clock,
                bootstrap=self._bootstrap_client,
                observer=observers[_NAMES[_CLIENT]],
            )
        self._server: CertificateManager | None = None
        if config.server_tls_bootstrap:
            self._server = CertificateManager(
                client=client,
                store=CertificateStore(settings.cluster.cert_dir, SERVER_PREFIX),
                template=self._serving_template,
                clock=clock,
                observer=observers[_NAMES[_SERVING]],
            )
            self._managers[_SERVING] = self._server

    def serving(self) -> CertificatePair | None:
        """Return the serving certificate, or None while the cluster has not signed one."""
        return self._server.current() if self._server is not None else None

    def addresses_seen(self, addresses: tuple[NodeAddress, ...]) -> None:
        """Handle the node's addresses of a status: the serving certificate has to have them."""
        if addresses != self._addresses:
            self._addresses = addresses
            if self._server is not None:
                self._server.poke()

    def seconds_left(self) -> dict[str, Callable[[], Seconds]]:
        """Return, for each renewed certificate (``client``, ``server``), a function of the seconds until it expires."""
        return {_NAMES[part]: manager.seconds_left for part, manager in self._managers.items()}

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        parts = {name: manager.run() for name, manager in self._managers.items()}
        client = self._managers.get(_CLIENT)
        if client is not None and self._needs_client:
            parts["client-certificate-lost"] = client.end_when_lost()
        return parts

    def _serving_template(self) -> Template | None:
        names, ips = names_and_ips(self._addresses)
        return serving_template(self._name, names, ips) if ips else None

    def _bootstrap_client(self) -> ApiClient | None:
        """Return a client with the bootstrap credentials, read now; None: there are none that can be used."""
        path = self._cluster.bootstrap_kubeconfig
        if path is None or not path.exists():
            return None
        try:
            return ApiClient(load_kubeconfig(path), self._clock)
        except Invalid as error:
            _log.warning("bootstrap kubeconfig unusable", extra={"path": str(path), "error": str(error)})
            return None


async def bootstrap_if_needed(settings: Settings, clock: Clock) -> None:
    """Request the first client certificate if it does not exist, and wait until the cluster has signed it."""
    cluster = settings.cluster
    if cluster is None or cluster.bootstrap_kubeconfig is None or not needs_bootstrap(cluster.kubeconfig, clock):
        return
    place = BootstrapConfig(settings.node_name, cluster.kubeconfig, cluster.bootstrap_kubeconfig, cluster.cert_dir)
    await bootstrap(place, clock)
