"""Metrics of the agent. Every stage that measures calls a method here, through a callback that ``main`` wires."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.failures import FailuresCollector
from pykubelet.kubelet.report.metrics.instruments import PLAIN_COUNTERS, Instruments, ProbeInstruments
from pykubelet.kubelet.report.metrics.operations import OperationMetrics
from pykubelet.kubelet.report.metrics.resizes import ResizeCounts
from pykubelet.kubelet.report.metrics.startup import NodeStartup
from pykubelet.kubelet.report.metrics.types import (
    CONTAINER_TYPES,
    NodeCounts,
    image_size_label,
    newly_failed_to_start,
    newly_started,
    newly_terminated,
    sandbox_newly_ready,
)
from pykubelet.kubelet.report.status.types import PENDING, RUNNING, StatusChange
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

__all__ = ["CONTENT_TYPE", "KubeletMetrics", "ProbeSample"]


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """One run of a probe."""

    pod: PodRef
    container: str
    type: ProbeType
    result: str
    """``successful``, ``failed`` or ``unknown``."""
    seconds: Seconds


class KubeletMetrics:
    """All metrics, in registries of their own. ``counts`` is called at each scrape."""

    def __init__(
        self,
        node_name: str,
        counts: Callable[[], NodeCounts],
        clock: Clock,
        setup_seconds: Callable[[PodUID], Seconds] = lambda _: 0.0,
        booted_at: Callable[[], Seconds] = lambda: 0.0,
    ) -> None:
        """``setup_seconds`` tells how much of a pod's start went into pulls and init containers.

        ``booted_at`` gives the Unix time of the machine's boot, 0 if it is not known.
        """
        # The reference has no series of creation times; the library's switch is for the process and has no types.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self._registry = CollectorRegistry()
        self._probe_registry = CollectorRegistry()
        self._own = Instruments(self._registry)
        self._resizes = ResizeCounts(self._own)
        self.works = OperationMetrics(self._own)
        """For the stages whose work is measured."""
        self.startup = NodeStartup(self._own, clock, booted_at())
        """For whoever registers the node."""
        self._network_seen = False
        self._probes = ProbeInstruments(self._probe_registry)
        self._pending: dict[PodUID, Seconds] = {}
        """Since when pods are pending."""
        self._probe_labels: dict[PodUID, set[tuple[str, ...]]] = {}
        self._setup_seconds = setup_seconds
        self._own.node_name.labels(node_name).set(1)
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        self._own.build_info.labels(KUBERNETES_VERSION, major, minor, "linux").set(1)
        self._registry.register(_CountsCollector(counts))
        self._registry.register(FailuresCollector())
        prometheus_client.ProcessCollector(registry=self._registry)
        prometheus_client.PlatformCollector(registry=self._registry)

    def render(self) -> bytes:
        """The text of /metrics, of the type :data:`CONTENT_TYPE`."""
        text = prometheus_client.generate_latest(self._registry)
        for name in PLAIN_COUNTERS:
            text = text.replace(f"# TYPE {name} gauge".encode(), f"# TYPE {name} counter".encode())
        return text

    def render_probes(self) -> bytes:
        """The text of /metrics/probes."""
        return prometheus_client.generate_latest(self._probe_registry)

    # -- the runtime ---------------------------------------------------------------------------------------------------

    def runtime_operation(self, operation: str, seconds: Seconds, failed: bool) -> None:
        """A CRI call has ended; fits ``CriOptions.observe``. A sandbox that could not be made is a pod not started."""
        self._own.runtime_operations.labels(operation).inc()
        self._own.runtime_duration.labels(operation).observe(seconds)
        if failed:
            self._own.runtime_errors.labels(operation).inc()
            if operation == "run_podsandbox":
                self._own.started_pods_errors.inc()

    def csi_operation(self, driver: str, method: str, code: str, seconds: Seconds) -> None:
        """A call to a CSI driver has ended; ``code`` is gRPC's, in its spelling for people (``DeadlineExceeded``)."""
        self._own.csi_duration.labels(driver, method, code, "false").observe(seconds)

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """An image was pulled."""
        self._own.image_pull_duration.labels(image_size_label(size_bytes)).observe(seconds)

    def cgroup_version(self, version: int) -> None:
        """1 or 2."""
        self._own.cgroup_version.set(version)

    # -- pods and containers -------------------------------------------------------------------------------------------

    def worker_duration(self, operation: str, seconds: Seconds) -> None:
        """A pod worker took a step; ``operation`` is create, update, sync or terminate."""
        self._own.worker_duration.labels(operation).observe(seconds)

    def worker_started(self, seconds: Seconds) -> None:
        """A pod's worker took it up, that long after it was seen."""
        self._own.worker_start_duration.observe(seconds)

    def pod_restarted(self, *, static: bool) -> None:
        """A pod came back under its uid while it was being stopped."""
        self._own.restarted_pods.labels("true" if static else "").inc()

    def pod_orphaned(self) -> None:
        """A pod in the runtime was found that nobody wants."""
        self._own.orphaned_pods.inc()

    def image_collected(self, reason: str) -> None:
        """An unused image was removed, for ``space`` or for its ``age``."""
        self._own.images_collected.labels(reason).inc()

    def evicted(self, signal: str) -> None:
        """A pod was ended for the node's sake, or for its limits of local storage."""
        self._own.evictions.labels(signal).inc()

    def eviction_decided(self, signal: str, age: Seconds) -> None:
        """A pod is chosen to go, by figures of that age."""
        self._own.eviction_age.labels(signal).observe(age)

    def orphans_swept(self, pods: int, failed: int) -> None:
        """Housekeeping has removed what pods that are gone have left, or has failed to."""
        self._own.orphans_cleaned.set(pods)
        self._own.orphans_left.set(failed)

    def pod_changed(self, before: Pod, now: Pod) -> None:
        """A source told of another version of a pod."""
        self._resizes.wished(before, now)

    def resize_accepted(self, trigger: str) -> None:
        """A pod was given a size that it had to wait for; ``trigger`` is what had the node look again."""
        self._own.accepted_resizes.labels(trigger).inc()

    def admission_rejected(self, reason: str) -> None:
        """A pod was turned away."""
        self._own.admission_rejections.labels(reason).inc()

    def preempted(self, signal: str) -> None:
        """A pod was pushed out for want of that resource."""
        self._own.preemptions.labels(signal).inc()

    def status_changed(self, change: StatusChange) -> None:
        """Subscribe this to the status manager: counts starts and ends of pods and containers, and measures starts.

        What a new agent finds running has no status before, so it does not count as started.
        """
        now = change.current
        self._resizes.changed(change.previous, now)
        if now is None:
            self.forget_pod(change.uid)
            return
        for kind, exit_code, reason in newly_terminated(change.previous, now):
            self._own.terminated_containers.labels(CONTAINER_TYPES[kind], str(exit_code), reason).inc()
        if change.previous is not None:
            self._count_starts(change.pod, change.previous, now)
        if now.phase == PENDING:
            self._pending.setdefault(change.uid, self._clock.monotonic())
            return
        seen = self._pending.pop(change.uid, None)
        if seen is not None and now.phase == RUNNING:
            self._own.pod_start_duration.observe(self._clock.monotonic() - seen)
            self._measure_from_creation(change.pod)

    def _measure_from_creation(self, pod: Pod) -> None:
        """A static pod is created when its manifest is read, so its start says nothing new."""
        created = pod.metadata.creation_timestamp
        if created is not None and not is_static(pod):
            total = self._clock.now() - created.timestamp()
            self._own.pod_start_total_duration.observe(max(0.0, total))
            alone = max(0.0, total - self._setup_seconds(ref_of(pod).uid))
            self._own.pod_start_sli_duration.observe(alone)
            if not pod.spec.host_network and not self._network_seen:
                self._network_seen = True
                self._own.first_network_start.set(alone)

    # -- the API server ------------------------------------------------------------------------------------------------

    def api_request(self, method: str, host: str, code: str, seconds: Seconds) -> None:
        """A request to the API server has been answered, or not (``<error>``); fits ``ApiClient``'s ``observe``."""
        self._own.rest_requests.labels(code, method, host).inc()
        self._own.rest_duration.labels(method, host).observe(seconds)

    def status_synced(self, seconds: Seconds) -> None:
        """The API server has a pod's status, that long after it changed."""
        self._own.status_sync.observe(seconds)

    def certificate_ttl(self, which: str, seconds: Callable[[], Seconds]) -> None:
        """Show how long a certificate (``client`` or ``server``) is still valid; infinite: there is none."""
        text = f"Seconds until the {which}'s certificate expires."
        name = f"kubelet_certificate_manager_{which}_ttl_seconds"
        Gauge(name, text, registry=self._registry).set_function(seconds)

    # -- pods and containers, continued --------------------------------------------------------------------------------

    def _count_starts(self, pod: Pod, before: PodStatus, now: PodStatus) -> None:
        for kind in newly_started(before, now):
            self._own.started_containers.labels(CONTAINER_TYPES[kind]).inc()
        own_users = pod.spec.host_users is False
        for kind, reason in newly_failed_to_start(before, now):
            self._own.started_containers_errors.labels(CONTAINER_TYPES[kind], reason).inc()
            if own_users:
                self._own.started_user_namespaced_errors.inc()
        if sandbox_newly_ready(before, now):
            self._own.started_pods.inc()
            if own_users:
                self._own.started_user_namespaced.inc()
            self._own.containers_per_pod.observe(len(pod.spec.containers))

    # -- PLEG ----------------------------------------------------------------------------------------------------------

    def pleg_relist(self, seconds: Seconds, since_last: Seconds | None) -> None:
        """All pods were listed; ``since_last`` is the time since the list before, None for the first."""
        self._own.pleg_relist_duration.observe(seconds)
        if since_last is not None:
            self._own.pleg_relist_interval.observe(since_last)

    def pleg_pod_read(self, seconds: Seconds) -> None:
        """The state of one pod was read."""
        self._own.pleg_pod_relist_duration.observe(seconds)

    def event_stream_works(self) -> None:
        """The first event came over a new stream."""
        self._own.evented_connections.inc()

    def event_received(self, age: Seconds) -> None:
        """An event came, that long after it happened."""
        self._own.evented_latency.observe(max(0.0, age))

    def event_stream_failed(self) -> None:
        """The runtime's event stream broke or could not be opened."""
        self._own.evented_errors.inc()

    # -- probes --------------------------------------------------------------------------------------------------------

    def probe(self, sample: ProbeSample) -> None:
        """A probe ran."""
        ref, kind = sample.pod, str(sample.type)
        labels = (kind, sample.result, sample.container, ref.name, ref.namespace, ref.uid)
        self._probes.results.labels(*labels).inc()
        if sample.result == "successful":
            self._probes.duration.labels(kind, sample.container, ref.name, ref.namespace).observe(sample.seconds)
        self._probe_labels.setdefault(ref.uid, set()).add(labels)

    def forget_pod(self, uid: PodUID) -> None:
        """Drop what is kept of a pod, or it would pile up."""
        self._pending.pop(uid, None)
        for kind, result, container, name, namespace, _ in self._probe_labels.pop(uid, set()):
            with suppress(KeyError):
                self._probes.results.remove(kind, result, container, name, namespace, uid)
            with suppress(KeyError):
                self._probes.duration.remove(kind, container, name, namespace)

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def websocket_streamed(self, subresource: str) -> None:
        """An exec, attach or port-forward came over a WebSocket of the newest protocol."""
        self._own.websocket_streams.labels(subresource).inc()

    @contextmanager
    def http_request(self, method: str, path: str, server_type: str, *, long_running: bool = False) -> Iterator[None]:
        """A request is served within the ``with`` block; ``path`` is the route's pattern, never the request's."""
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
        """A server closed a connection, or did not take it, to keep its limits."""
        self._own.http_connections_closed.labels(server_type, reason).inc()


class _CountsCollector(Collector):
    """Asks what is there at each scrape."""

    def __init__(self, counts: Callable[[], NodeCounts]) -> None:
        self._counts = counts

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: the registry need not scrape to register."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        counts = self._counts()
        for name, text, by_static in (
            ("desired_pods", "Pods that the sources want.", counts.desired_pods),
            ("active_pods", "Wanted pods that have not ended.", counts.active_pods),
        ):
            family = GaugeMetricFamily(f"kubelet_{name}", text, labels=("static",))
            for static in (True, False):
                family.add_metric(("true" if static else "",), by_static.get(static, 0))
            yield family
        working = GaugeMetricFamily(
            "kubelet_working_pods", "Pods with a worker.", labels=("lifecycle", "config", "static")
        )
        for labels, number in counts.working_pods.items():
            working.add_metric((labels.lifecycle, labels.config, labels.static), number)
        yield working
        for name, text, value in (
            ("mirror_pods", "Mirror pods.", counts.mirror_pods),
            ("managed_ephemeral_containers", "Ephemeral containers of desired pods.", counts.ephemeral_containers),
        ):
            yield GaugeMetricFamily(f"kubelet_{name}", text, value=value)
        yield GaugeMetricFamily("kubelet_running_pods", "Pods with a running sandbox.", value=counts.running_pods)
        containers = GaugeMetricFamily("kubelet_running_containers", "Containers.", labels=("container_state",))
        for state, number in counts.running_containers.items():
            containers.add_metric((state,), number)
        yield containers
        for name, text, label, by_state in (
            ("volume_manager_total_volumes", "Volumes of pods, wanted or set up.", "plugin_name", counts.volumes),
            ("plugin_manager_total_plugins", "Plugins, there or registered.", "socket_path", counts.plugins),
        ):
            family = GaugeMetricFamily(name, text, labels=(label, "state"))
            for key, number in by_state.items():
                family.add_metric(key, number)
            yield family
        text = "Unix time of the last complete list of the runtime's pods."
        yield GaugeMetricFamily("kubelet_pleg_last_seen_seconds", text, value=counts.pleg_last_seen)
