"""Health checks, the metrics of all servers, and the configuration of the health server."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.telemetry import Telemetry

HealthCheck = Callable[[], str | None]
"""Returns the reason of a failure; None: healthy."""


class HttpMeter(Protocol):
    """Measures HTTP requests (implemented in ``report/metrics``)."""

    def http_request(
        self, method: str, path: str, server_type: str, *, long_running: bool = False
    ) -> AbstractContextManager[None]:
        """Measure a request that is served within the block."""

    def http_connection_closed(self, server_type: str, reason: str) -> None:
        """Count a connection that a server closed or rejected to keep its limits."""


class HealthDeps(Struct, frozen=True, kw_only=True):
    """Everything that the health server acts through."""

    checks: Mapping[str, HealthCheck]
    render_metrics: Callable[[], bytes]
    render_probe_metrics: Callable[[], bytes]
    telemetry: Telemetry[HttpMeter]


class HealthConfig(Struct, frozen=True):
    """Listening address (``healthzBindAddress``, ``healthzPort``) and limits of the health server."""

    address: str = "127.0.0.1"
    port: int = 10248
    connections: ConnectionLimits = ConnectionLimits(
        total=128, untrusted=64, untrusted_per_source=64, first_request=10.0
    )
    slots: SlotLimits = SlotLimits(short=32, short_per_user=32, streams=0, streams_per_user=0, deadline=10.0)
