"""Metrics of the node's certificates; registered only for those that the agent renews, as upstream."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from pykubelet.base.units import Seconds

_AGES: Final = (60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000)
CLIENT_ERRORS: Final = "kubelet_certificate_manager_client_expiration_renew_errors"
SERVER_ERRORS: Final = "kubelet_server_expiration_renew_errors"
_CLIENT_TTL: Final = "kubelet_certificate_manager_client_ttl_seconds"
_SERVER_TTL: Final = "kubelet_certificate_manager_server_ttl_seconds"


class CertificateRenewals:
    """Counts the renewals of one certificate."""

    def __init__(self, which: str, registry: CollectorRegistry) -> None:
        """``which`` is ``client`` or ``server``."""
        self._which = which
        self._registry = registry
        name = CLIENT_ERRORS if which == "client" else SERVER_ERRORS
        self._errors = Gauge(name, f"Failed renewals of the {which}'s certificate.", registry=registry)
        self._ages: Histogram | None = None
        if which == "server":
            text = "Seconds that the previous certificate was valid before it was replaced."
            name = "kubelet_certificate_manager_server_rotation_seconds"
            self._ages = Histogram(name, text, buckets=_AGES, registry=registry)

    def renewal_failed(self) -> None:
        """Count a renewal that failed."""
        self._errors.inc()

    def replaced(self, lived: Seconds) -> None:
        """Record the age of a certificate that was replaced."""
        if self._ages is not None:
            self._ages.observe(lived)

    def export_ttl(self, seconds: Callable[[], Seconds]) -> None:
        """Export how long the certificate is valid; infinite: no certificate."""
        text = f"Seconds until the {self._which}'s certificate expires."
        name = _CLIENT_TTL if self._which == "client" else _SERVER_TTL
        Gauge(name, text, registry=self._registry).set_function(seconds)
