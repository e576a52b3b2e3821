"""Metrics of the agent. Stages call :class:`KubeletMetrics` through protocols of their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import prometheus_client
from msgspec import Struct
from prometheus_client import CollectorRegistry

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.clock import Clock
from pykubelet.base.failure_metrics import FailuresCollector
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.report.metrics.certificates import CertificateRenewals
from pykubelet.kubelet.report.metrics.instruments import PLAIN_COUNTERS, Instruments, ProbeInstruments
from pykubelet.kubelet.report.metrics.metric_types import (
    CONTAINER_TYPES,
    image_size_label,
    newly_failed_to_start,
    newly_started,
    newly_terminated,
    sandbox_newly_ready,
)
from pykubelet.kubelet.report.metrics.operations import OperationMetrics
from pykubelet.kubelet.report.metrics.reloads import ReloadCounts
from pykubelet.kubelet.report.metrics.resizes import ResizeGauges
from pykubelet.kubelet.report.metrics.startup import NodeStartup
from pykubelet.kubelet.report.metrics.usage_texts import UsageTexts
from pykubelet.kubelet.report.status.status_types import PENDING, RUNNING
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

__all__ = ["KubeletMetrics", "ProbeSample"]


class ProbeSample(Struct, frozen=True):
    """The result of one run of a probe."""

    pod: PodRef
    container: str
    type: ProbeType
    result: str
    """``successful``, ``failed`` or ``unknown``."""
    seconds: Seconds


class KubeletMetrics:
    """All metrics, in registries of their own, besides those of `CountsCollector`."""

    def __init__(
        self,
        *,
        node_name: str,
        clock: Clock,
        setup_seconds: Callable[[PodUID], Seconds] = lambda _: 0.0,
        booted_at: Callable[[], Seconds] = lambda: 0.0,
    ) -> None:
        """Create the instruments.

        ``setup_seconds`` returns the part of a pod's start spent on image pulls and init containers; ``booted_at``
        returns the Unix time of the machine's boot, 0 if unknown.
        """
        # Upstream has no ``_created`` series. The library's switch is process-wide and untyped.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self.registry = CollectorRegistry()
        """The metrics of /metrics."""
        self._probe_registry = CollectorRegistry()
        self._own = Instruments(self.registry)
        self._resizes = ResizeGauges(self._own)
        self.operations = OperationMetrics(self._own)
        """Recorder of operations, passed to the stages that perform them."""
        self.startup = NodeStartup(instruments=self._own, clock=clock, booted_at=booted_at())
        """Recorder of the node's start-up, passed to the node reporter."""
        self.reloads = ReloadCounts(self.registry)
        """Recorder of reloads of the configuration."""
        self._network_seen = False
        self._probes = ProbeInstruments(self._probe_registry)
        self._pending: dict[PodUID, Seconds] = {}
        """When each pending pod was first seen, by uid."""
        self._failed_with_users: set[PodUID] = set()
        """Pods with a user namespace that have failed to start since their sandbox was made: they count once."""
        self._probe_labels: dict[PodUID, set[tuple[str, ...]]] = {}
        self._setup_seconds = setup_seconds
        self._own.node_name.labels(node_name).set(1)
        self._own.metrics_provider.labels("cadvisor").set(1)
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        self._own.build_info.labels(KUBERNETES_VERSION, major, minor, "linux").set(1)
        self.registry.register(FailuresCollector("pykubelet"))
        self.usage_texts = UsageTexts()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)

    def render(self) -> bytes:
        """Return the text of /metrics, of the type ``CONTENT_TYPE`` of ``base.exposition``."""
        text = prometheus_client.generate_latest(self.registry)
        for name in PLAIN_COUNTERS:
            text = text.replace(f"# TYPE {name} gauge".encode(), f"# TYPE {name} counter".encode())
        return text

    def render_probes(self) -> bytes:
        """Return the text of /metrics/probes."""
        return prometheus_client.generate_latest(self._probe_registry)

    # -- the runtime ---------------------------------------------------------------------------------------------------

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

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """Record an image pull."""
        self._own.image_pull_duration.labels(image_size_label(size_bytes)).observe(seconds)

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None:
        """Count a request for an image; None: there was an error before that was known."""
        self._own.image_requests.labels(policy.lower(), _known(present), _known(must_pull)).inc()

    def credential_plugin(self, plugin: str, seconds: Seconds, failed: bool) -> None:
        """Record a run of a credential provider plugin."""
        self._own.credential_duration.labels(plugin).observe(seconds)
        if failed:
            self._own.credential_errors.labels(plugin).inc()

    def credential_config(self, config_hash: str) -> None:
        """Set the hash of the configuration of credential provider plugins."""
        self._own.credential_config.labels(config_hash).set(1)

    def pull_check(self, result: str) -> None:
        """Count a check whether a pod may use a present image, by its result."""
        self._own.pull_checks.labels(result).inc()

    def pull_records(self, intents: int, records: int) -> None:
        """Set the numbers of intents to pull images, and of records of pulled images."""
        self._own.pull_intents.set(intents)
        self._own.pulled_records.set(records)

    def cgroup_version(self, version: int) -> None:
        """Set the cgroup version of the host: 1 or 2."""
        self._own.cgroup_version.set(version)

    # -- pods and containers -------------------------------------------------------------------------------------------

    def worker_duration(self, operation: str, seconds: Seconds) -> None:
        """Record a pod worker's step; ``operation`` is create, update, sync or terminate."""
        self._own.worker_duration.labels(operation).observe(seconds)

    def worker_started(self, seconds: Seconds) -> None:
        """Record the delay from seeing a pod to starting its worker."""
        self._own.worker_start_duration.observe(seconds)

    def pod_restarted(self, *, static: bool) -> None:
        """Count a pod that was added again with the same uid while it was terminating."""
        self._own.restarted_pods.labels("true" if static else "").inc()

    def pod_orphaned(self) -> None:
        """Count a pod found in the runtime that no source wants."""
        self._own.orphaned_pods.inc()

    def image_collected(self, reason: str) -> None:
        """Count the removal of an unused image, for ``space`` or for its ``age``."""
        self._own.images_collected.labels(reason).inc()

    def runtime_trash(self, size: Bytes) -> None:
        """Set the bytes of removed containers and images that the runtime server has not deleted yet."""
        self._own.runtime_trash.set(size)

    def evicted(self, signal: str) -> None:
        """Count an eviction for node pressure or for exceeding local storage limits."""
        self._own.evictions.labels(signal).inc()

    def eviction_decided(self, signal: str, age: Seconds) -> None:
        """Record the age of the measurements on which an eviction was decided."""
        self._own.eviction_age.labels(signal).observe(age)

    def shutdown_times(self, start: Seconds, end: Seconds) -> None:
        """Set when the last graceful node shutdown began and ended, in Unix time; 0: unknown, or not yet."""
        self._own.shutdown_start.set(int(start))
        self._own.shutdown_end.set(int(end))

    def orphans_swept(self, pods: int, failed: int) -> None:
        """Record the cleanup of orphaned pod directories by housekeeping: how many, and how many failed."""
        self._own.orphans_cleaned.set(pods)
        self._own.orphans_left.set(failed)

    def pod_changed(self, before: Pod, now: Pod) -> None:
        """Count the resizes that a new version of a pod requests; none if its spec is the same."""
        self._resizes.spec_changed(before, now)

    def resize_accepted(self, trigger: str) -> None:
        """Count a deferred resize that was accepted; ``trigger`` is what made the node retry it."""
        self._own.accepted_resizes.labels(trigger).inc()

    def admission_rejected(self, reason: str) -> None:
        """Count a pod rejected at admission."""
        self._own.admission_rejections.labels(reason).inc()

    def preempted(self, signal: str) -> None:
        """Count a pod preempted for that resource."""
        self._own.preemptions.labels(signal).inc()

    def status_changed(self, change: StatusChange) -> None:
        """Count starts and ends of pods and containers, and measure starts; a status manager subscriber.

        Pods that a restarted agent finds running have no status before, so they do not count as started.
        """
        now = change.current
        self._resizes.status_changed(change.previous, now)
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
        """Record the start latency; not for static pods, whose creation time is when the manifest was read."""
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
        """Record a request to the API server; code ``<error>`` if unanswered. Fits ``ApiClient``'s ``observe``."""
        self._own.rest_requests.labels(code, method, host).inc()
        self._own.rest_duration.labels(method, host).observe(seconds)

    def status_synced(self, seconds: Seconds) -> None:
        """Record the delay from a status change until the API server has it."""
        self._own.status_sync.observe(seconds)

    def certificate_renewals(self, which: str) -> CertificateRenewals:
        """Return the recorder of a certificate (``client`` or ``server``) that the agent renews."""
        return CertificateRenewals(which, self.registry)

    # -- starts of pods ------------------------------------------------------------------------------------------------

    def _count_starts(self, pod: Pod, before: PodStatus, now: PodStatus) -> None:
        for kind in newly_started(before, now):
            self._own.started_containers.labels(CONTAINER_TYPES[kind]).inc()
        own_users, uid = pod.spec.host_users is False, ref_of(pod).uid
        if sandbox_newly_ready(before, now):
            self._own.started_pods.inc()
            if own_users:
                self._own.started_user_namespaced.inc()
                self._failed_with_users.discard(uid)
            self._own.containers_per_pod.observe(len(pod.spec.containers))
        failed = newly_failed_to_start(before, now)
        for kind, reason in failed:
            self._own.started_containers_errors.labels(CONTAINER_TYPES[kind], reason).inc()
        if own_users and failed and uid not in self._failed_with_users:
            self._failed_with_users.add(uid)
            self._own.started_user_namespaced_errors.inc()

    # -- PLEG ----------------------------------------------------------------------------------------------------------

    def pleg_relist(self, seconds: Seconds, since_last: Seconds | None) -> None:
        """Record a relist; ``since_last`` is the time since the last one, None for the first."""
        self._own.pleg_relist_duration.observe(seconds)
        if since_last is not None:
            self._own.pleg_relist_interval.observe(since_last)

    def pleg_pod_read(self, seconds: Seconds) -> None:
        """Record reading the state of one pod."""
        self._own.pleg_pod_relist_duration.observe(seconds)

    def event_stream_works(self) -> None:
        """Count a new event stream on which the first event arrived."""
        self._own.evented_connections.inc()

    def event_received(self, age: Seconds) -> None:
        """Record the delay from a runtime event until it was received."""
        self._own.evented_latency.observe(max(0.0, age))

    def event_stream_failed(self) -> None:
        """Count an event stream of the runtime that broke or could not be opened."""
        self._own.evented_errors.inc()

    # -- probes --------------------------------------------------------------------------------------------------------

    def probe(self, sample: ProbeSample) -> None:
        """Record one run of a probe."""
        ref, kind = sample.pod, str(sample.type)
        labels = (kind, sample.result, sample.container, ref.name, ref.namespace, ref.uid)
        self._probes.results.labels(*labels).inc()
        if sample.result == "successful":
            self._probes.duration.labels(kind, sample.container, ref.name, ref.namespace).observe(sample.seconds)
        self._probe_labels.setdefault(ref.uid, set()).add(labels)

    def forget_pod(self, uid: PodUID) -> None:
        """Drop the series and state of a pod, so that they do not accumulate."""
        self._pending.pop(uid, None)
        self._failed_with_users.discard(uid)
        for kind, result, container, name, namespace, _ in self._probe_labels.pop(uid, set()):
            with suppress(KeyError):
                self._probes.results.remove(kind, result, container, name, namespace, uid)
            with suppress(KeyError):
                self._probes.duration.remove(kind, container, name, namespace)

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def websocket_streamed(self, subresource: str) -> None:
        """Count an exec, attach or port-forward over a WebSocket of the newest protocol."""
        self._own.websocket_streams.labels(subresource).inc()

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

    def history_failed(self) -> None:
        """Count a failure to read or write the history file."""
        self._own.history_failures.inc()


def _known(value: bool | None) -> str:
    return "unknown" if value is None else str(value).lower()
