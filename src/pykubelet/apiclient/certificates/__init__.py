"""Certificates that the cluster signs for this node: requested, stored in the pki directory, renewed in time.

``bootstrap`` gets the first client certificate and writes the kubeconfig; :class:`CertificateManager` renews one
certificate, for the client or for the kubelet API server. Loaded only where certificates are requested, because
cryptography costs memory. Start reading in ``certificate_manager.py``. Imports no package beside it.
"""

from pykubelet.apiclient.certificates.bootstrap import BootstrapConfig, bootstrap, needs_bootstrap
from pykubelet.apiclient.certificates.certificate_manager import CertificateManager
from pykubelet.apiclient.certificates.certificate_types import CertificatePair, RenewalObserver, Template
from pykubelet.apiclient.certificates.request import client_template, serving_template
from pykubelet.apiclient.certificates.store import CertificateStore

__all__ = [
    "BootstrapConfig",
    "CertificateManager",
    "CertificatePair",
    "CertificateStore",
    "RenewalObserver",
    "Template",
    "bootstrap",
    "client_template",
    "needs_bootstrap",
    "serving_template",
]
