"""TLS bootstrapping: the first certificate of a node with a bootstrap token, and its kubeconfig (KEP-267)."""

import base64
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from pykubelet.apiclient.certificates.certificate_manager import CertificateManager
from pykubelet.apiclient.certificates.plan.renewal import is_valid
from pykubelet.apiclient.certificates.request import client_template, validity_of
from pykubelet.apiclient.certificates.store import CertificateStore
from pykubelet.apiclient.client import ApiClient
from pykubelet.apiclient.kubeconfig import ClusterConfig, load_kubeconfig
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid
from pykubelet.base.files.atomic import write_atomic

CLIENT_PREFIX = "kubelet-client"


class BootstrapConfig(Struct, frozen=True):
    """Paths of bootstrapping, and the node's name."""

    node: str
    kubeconfig: Path
    bootstrap_kubeconfig: Path
    pki: Path


def needs_bootstrap(kubeconfig: Path, clock: Clock) -> bool:
    """Return whether the kubeconfig is missing or its certificate is expired or unreadable. Blocks."""
    if not kubeconfig.exists():
        return True
    try:
        user = load_kubeconfig(kubeconfig).user
        if not user.certificate:
            return False
        return not is_valid(validity_of(user.certificate.read()), clock.now())
    except Invalid:
        return True


async def bootstrap(config: BootstrapConfig, clock: Clock) -> None:
    """Get a client certificate with the bootstrap credentials and write the kubeconfig.

    Waits until the certificate is signed. Raises base errors when the bootstrap credentials do not work.
    """
    cluster = load_kubeconfig(config.bootstrap_kubeconfig)
    store = CertificateStore(config.pki, CLIENT_PREFIX)
    client = ApiClient(cluster, clock)
    try:
        template = client_template(config.node)
        await CertificateManager(client=client, store=store, template=lambda: template, clock=clock).request(template)
    finally:
        await client.close()
    text = json.dumps(_document(cluster, store.current), indent=2)
    config.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    await blocking.call_to_end("certificates", write_atomic, config.kubeconfig, text.encode(), 0o600)


def _document(cluster: ClusterConfig, certificate: Path) -> dict[str, Any]:
    place: dict[str, Any] = {"server": cluster.server}
    if cluster.ca.data:
        place["certificate-authority-data"] = base64.b64encode(cluster.ca.data).decode()
    elif cluster.ca.file:
        place["certificate-authority"] = cluster.ca.file
    if cluster.insecure:
        place["insecure-skip-tls-verify"] = True
    if cluster.tls_server_name:
        place["tls-server-name"] = cluster.tls_server_name
    user = {"client-certificate": str(certificate), "client-key": str(certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": place}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}],
        "current-context": "default-context",
    }
