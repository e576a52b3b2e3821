"""Metrics of calls: those of the agent to the runtime, CSI drivers and the API server, and those to its servers."""

from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments


class CallMetrics:
    """Recorder of calls."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def runtime_operation(self, operation: str, seconds: Seconds, failed: bool) -> None:
        """Record a CRI call; fits ``CriOptions.observe``. A failed RunPodSandbox also counts as a pod start error."""
        self._own.runtime_operations.labels(operation).inc()
        self._own.runtime_duration.labels(operation).observe(seconds)
        if failed:
            self._own.runtime_errors.labels(operation).inc()
            if operation == "run_podsandbox":
                self._own.started_pods_errors.inc()

    def runtime_outdated(self) -> None:
        """Record that the runtime lacks the call RuntimeConfig, without which it cannot be used from 1.37 on."""
        self._own.losing_support.labels("1.37.0").set(1)

    def csi_operation(self, driver: str, method: str, code: str, seconds: Seconds) -> None:
        """Record a call to a CSI driver; ``code`` is the gRPC code's readable name (``DeadlineExceeded``)."""
        self._own.csi_duration.labels(driver, method, code, "false").observe(seconds)

    def api_request(self, method: str, host: str, code: str, seconds: Seconds) -> None:
        """Record a request to the API server; code ``<error>`` if unanswered. Fits ``ApiClient``'s ``observe``."""
        self._own.rest_requests.labels(code, method, host).inc()
        self._own.rest_duration.labels(method, host).observe(seconds)


class HttpMetrics:
    """Recorder of requests and connections."""

    def __init__(self, instruments: Instruments, clock: Clock) -> None:
        self._own = instruments
        self._clock = clock

    @contextmanager
    def http_request(self, method: str, path: str, server_type: str, *, long_running: bool = False) -> Iterator[None]:
        """Measure a request served within the block; ``path`` is the route's pattern, never the request's path."""
        labels = (method, path, server_type, "true" if long_running else "false")
        self._own.http_requests.labels(*labels).inc()
        self._own.http_inflight.labels(*labels).inc()
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._own.http_inflight.labels(*labels).dec()
            self._own.http_duration.labels(*labels).observe(self._clock.monotonic() - begun)

    def http_connection_closed(self, server_type: str, reason: str) -> None:
        """Count a connection that a server closed or rejected to keep its limits."""
        self._own.http_connections_closed.labels(server_type, reason).inc()

    def websocket_streamed(self, subresource: str) -> None:
        """Count an exec, attach or port-forward over a WebSocket of the newest protocol."""
        self._own.websocket_streams.labels(subresource).inc()
