"""The instruments: counters and histograms of calls, networks, OCI runtimes and pulls, and what fails."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pykubelet.base.clock import Clock
from pykubelet.base.daemon.failure_metrics import FailuresCollector
from pykubelet.base.units import MIB, Bytes, Seconds

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Those of containerd's timers."""
_LONG: Final = (*_BUCKETS, 30, 60, 120, 300)
_THROUGHPUT: Final = (0.1, 1, 10, 25, 75, 150, 300, 500, 1000, 2000, 4000)
_LISTS: Final = {
    "ListPodSandbox": ("sandbox_list", "Seconds to list sandboxes."),
    "StreamPodSandboxes": ("stream_sandbox_list", "Seconds to stream sandboxes."),
    "ListContainers": ("container_list", "Seconds to list containers."),
    "StreamContainers": ("stream_container_list", "Seconds to stream containers."),
}
_CHANGES: Final = {
    "CreateContainer": ("container_create", "Seconds to create a container."),
    "StartContainer": ("container_start", "Seconds to start a container."),
    "StopContainer": ("container_stop", "Seconds to stop a container."),
    "RemoveContainer": ("container_remove", "Seconds to remove a container."),
    "RemovePodSandbox": ("sandbox_remove", "Seconds to remove a sandbox."),
}
SET_UP, TEAR_DOWN = "set_up_pod", "tear_down_pod"
"""The types of network operations, with the names of the Go kubelet and containerd."""
_ENDLESS: Final = frozenset({"GetContainerEvents"})
"""Calls whose duration is the client's decision."""
_NETWORKS: Final = {SET_UP: "sandbox_create_network", TEAR_DOWN: "sandbox_delete_network"}


class ServerMetrics:
    """All instruments of one server. Successful operations only have a duration in containerd's timers, as there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(FailuresCollector("pykubelet_criserver"))
        self._calls = self._counter("pykubelet_criserver_calls_total", "Calls by method and code.", "method", "code")
        text = "Seconds of calls by method."
        self._durations = self._histogram("pykubelet_criserver_call_duration_seconds", text, _LONG, "method")
        self._lists = {
            method: self._histogram(f"containerd_cri_{name}_seconds", text, _BUCKETS)
            for method, (name, text) in _LISTS.items()
        }
        self._changes = {
            method: self._histogram(f"containerd_cri_{name}_seconds", text, _BUCKETS, "runtime")
            for method, (name, text) in _CHANGES.items()
        }
        self._network()
        self._oci = self._histogram(
            "pykubelet_criserver_runtime_operation_duration_seconds",
            "Seconds of calls of the OCI runtime's program, by handler, operation and result.",
            *(_LONG, "runtime", "operation", "result"),
        )
        self._pulls = self._counter(
            "containerd_cri_sandboxed_image_pulls_total", "Pulls that succeeded and failed.", "status"
        )
        self._throughput = self._histogram(
            "containerd_cri_sandboxed_image_pulling_throughput_mibps",
            "MiB per second of pulls that fetched something, unpacking included.",
            _THROUGHPUT,
        )
        self._fetched = self._counter("pykubelet_criserver_image_pull_bytes_total", "Bytes fetched from registries.")
        self._gauges: dict[str, Gauge] = {}

    def _network(self) -> None:
        # containerd appends the unit to names that have it already.
        base, label = "containerd_cri_network_plugin_operations", "operation_type"
        self._operations = self._counter(f"{base}_total_total", "Network operations.", label)
        self._failures = self._counter(f"{base}_errors_total_total", "Network operations that failed.", label)
        text = "Seconds of network operations."
        self._latencies = self._histogram(f"{base}_duration_seconds_seconds", text, _BUCKETS, label)
        self._networks = {
            operation: self._histogram(f"containerd_cri_{name}_seconds", "Seconds of the pod network.", _BUCKETS)
            for operation, name in _NETWORKS.items()
        }

    def call(self, method: str, runtime: str, code: str, seconds: Seconds) -> None:
        """Record a call: its gRPC code by name, and the runtime handler that it was about, if any."""
        self._calls.labels(method, code).inc()
        if method in _ENDLESS:
            return
        self._durations.labels(method).observe(seconds)
        if code == "OK" and method in self._lists:
            self._lists[method].observe(seconds)
        if code == "OK" and method in self._changes:
            self._changes[method].labels(runtime).observe(seconds)
        if method == "PullImage":
            self._pulls.labels("success" if code == "OK" else "failure").inc()

    @contextmanager
    def network(self, operation: str) -> Iterator[None]:
        """Record the operation in the block: ``SET_UP`` or ``TEAR_DOWN``."""
        begun = self._clock.monotonic()
        self._operations.labels(operation).inc()
        try:
            yield
        except BaseException:
            self._failures.labels(operation).inc()
            raise
        finally:
            self._latencies.labels(operation).observe(self._clock.monotonic() - begun)
        self._networks[operation].observe(self._clock.monotonic() - begun)

    def runtime(self, runtime: str) -> Callable[[str], AbstractContextManager[None]]:
        """Return what records calls of the program of a handler: the operation runs in the context."""
        return partial(self._operation, runtime)

    @contextmanager
    def _operation(self, runtime: str, operation: str) -> Iterator[None]:
        begun, result = self._clock.monotonic(), "failure"
        try:
            yield
            result = "success"
        finally:
            self._oci.labels(runtime, operation, result).observe(self._clock.monotonic() - begun)

    def pulled(self, fetched: Bytes, seconds: Seconds) -> None:
        """Record what a pull, successful or not, has fetched."""
        self._fetched.inc(fetched)
        if fetched > 0 and seconds > 0:
            self._throughput.observe(fetched / MIB / seconds)

    def render(self, figures: Mapping[tuple[str, str], float]) -> bytes:
        """Return the text format; ``figures`` are gauges of this moment by name and help text."""
        for (name, text), value in figures.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(name, text, registry=self.registry)
            self._gauges[name].set(value)
        return prometheus_client.generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)
