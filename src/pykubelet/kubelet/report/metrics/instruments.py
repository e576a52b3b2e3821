"""Instruments of /metrics; names, labels and buckets are upstream's, so that existing dashboards and alerts work."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pykubelet.kubelet.report.metrics.certificates import CLIENT_ERRORS, SERVER_ERRORS

_DEFAULT: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_START: Final = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45),
    *(60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)
_PULL: Final = (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
_RUNTIME: Final = tuple(round(0.005 * 2.5**i, 9) for i in range(14))
_STATUS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
_REST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_CSI: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
_RESIZE: Final = (10, 50, 100, 500, *(1000 * n for n in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)))
PLAIN_COUNTERS: Final = (
    "kubelet_evictions",
    "kubelet_preemptions",
    "kubelet_evented_pleg_connection_error_count",
    "kubelet_evented_pleg_connection_success_count",
    CLIENT_ERRORS,
    SERVER_ERRORS,
)
"""Counters without the suffix ``_total``, which the library would add: kept as gauges, rendered as counters."""
_HTTP: Final = ("method", "path", "server_type", "long_running")


class Instruments:
    """All instruments of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.node_name = self._gauge("node_name", "The node's name; always 1.", "node")
        text = "Where the figures of containers come from: cadvisor means from their cgroups; always 1."
        self.metrics_provider = self._gauge("metrics_provider", text, "provider")
        self.containers_per_pod = self._histogram("containers_per_pod_count", "Containers per pod.", (1, 2, 4, 8, 16))
        self._pods()
        self._resizes()
        self._runtime()
        self._storage()
        self._node()
        self._pleg()
        self._http()
        self._api()
        text = "Times that the history file could not be read or written; the changes wait and are retried."
        self.history_failures = Counter("pykubelet_history_failures_total", text, registry=registry)

    def _pods(self) -> None:
        text = "Seconds to sync one pod, by operation: create, update, sync, kill or terminated."
        self.worker_duration = self._histogram("pod_worker_duration_seconds", text, _DEFAULT, "operation_type")
        text = "Seconds from seeing a pod to starting its worker."
        self.worker_start_duration = self._histogram("pod_worker_start_duration_seconds", text, _DEFAULT)
        text = "Seconds from first seeing a pod until it runs."
        self.pod_start_duration = self._histogram("pod_start_duration_seconds", text, _START)
        text = "Seconds from the creation of a pod until it runs, pulls and init containers included; no static pods."
        self.pod_start_total_duration = self._histogram("pod_start_total_duration_seconds", text, _START)
        text = "Seconds from the creation of a pod until it runs, pulls and init containers left out; no static pods."
        self.pod_start_sli_duration = self._histogram("pod_start_sli_duration_seconds", text, _START)
        text = "Seconds from a change of a pod's status until the API server has it."
        self.status_sync = self._histogram("pod_status_sync_duration_seconds", text, _STATUS)
        self.started_pods = self._counter("started_pods_total", "Pods started.")
        self.started_pods_errors = self._counter("started_pods_errors_total", "Errors when starting pods.")
        self.restarted_pods = self._counter(
            "restarted_pods_total", "Pods added again with the same uid while they were terminating.", "static"
        )
        self.orphaned_pods = self._counter(
            "orphaned_runtime_pods_total", "Pods found in the runtime that no source wants."
        )
        self.admission_rejections = self._counter("admission_rejections_total", "Pods rejected at admission.", "reason")
        self.preemptions = self._gauge("preemptions", "Pods preempted by critical pods.", "preemption_signal")
        self.evictions = self._gauge("evictions", "Pods evicted, by eviction signal.", "eviction_signal")
        text = "Unix time at which the last graceful node shutdown began."
        self.shutdown_start = self._gauge("graceful_shutdown_start_time_seconds", text)
        text = "Unix time at which the last graceful node shutdown ended; 0 while it goes on."
        self.shutdown_end = self._gauge("graceful_shutdown_end_time_seconds", text)
        text = "Age in seconds of the measurement that a pod's eviction was based on."
        self.eviction_age = self._histogram("eviction_stats_age_seconds", text, _DEFAULT, "eviction_signal")
        text = "pod_start_sli_duration_seconds of the first pod with its own network."
        self.first_network_start = self._gauge("first_network_pod_start_sli_duration_seconds", text)
        self.started_containers = self._counter("started_containers_total", "Containers started.", "container_type")
        self.started_containers_errors = self._counter(
            "started_containers_errors_total", "Errors when starting containers.", "container_type", "code"
        )
        self.terminated_containers = self._counter(
            "terminated_containers_total", "Containers that terminated.", "container_type", "exit_code", "reason"
        )

    def _resizes(self) -> None:
        self.pending_resizes = self._gauge("pod_pending_resizes", "Pods with a pending resize.", "reason")
        self.resizes_in_progress = self._gauge("pod_in_progress_resizes", "Pods with a resize in progress.")
        text = "Resizes that the node can never grant."
        self.infeasible_resizes = self._counter("pod_infeasible_resizes_total", text, "reason_detail")
        text = "Requested container resizes; resources, requests and limits count separately."
        self.requested_resizes = self._counter(
            "container_requested_resizes_total", text, "resource", "requirement", "operation"
        )
        text = "Deferred resizes that were accepted later, by the trigger of the retry."
        self.accepted_resizes = self._counter("pod_deferred_accepted_resizes_total", text, "retry_trigger")
        text = "Milliseconds to resize running containers."
        self.resize_duration = self._histogram("pod_resize_duration_milliseconds", text, _RESIZE, "success")
        text = "Pods with a user namespace of their own that were started."
        self.started_user_namespaced = self._counter("started_user_namespaced_pods_total", text)
        text = "Errors when starting pods with a user namespace of their own."
        self.started_user_namespaced_errors = self._counter("started_user_namespaced_pods_errors_total", text)

    def _runtime(self) -> None:
        text = "Calls to the container runtime."
        self.runtime_operations = self._counter("runtime_operations_total", text, "operation_type")
        text = "Calls to the container runtime that failed."
        self.runtime_errors = self._counter("runtime_operations_errors_total", text, "operation_type")
        text = "Seconds that calls to the container runtime took."
        self.runtime_duration = self._histogram("runtime_operations_duration_seconds", text, _RUNTIME, "operation_type")
        text = (
            "Version of Kubernetes that no longer supports the runtime, as it lacks the call RuntimeConfig; always 1."
        )
        self.losing_support = self._gauge("cri_losing_support", text, "version")
        text = "Seconds to pull an image, waiting included."
        self.image_pull_duration = self._histogram("image_pull_duration_seconds", text, _PULL, "image_size_in_bytes")
        text = "Seconds that a credential provider plugin ran."
        self.credential_duration = self._histogram("credential_provider_plugin_duration", text, _DEFAULT, "plugin_name")
        text = "Runs of a credential provider plugin that failed."
        self.credential_errors = self._counter("credential_provider_plugin_errors_total", text, "plugin_name")
        text = "The hash of the configuration of credential provider plugins; always 1."
        self.credential_config = self._gauge("credential_provider_config_info", text, "hash")
        text = "Checks whether a pod may use a present image without a pull, by result."
        self.pull_checks = self._counter("imagemanager_image_mustpull_checks_total", text, "result")
        text = "Requests for images, by policy, and whether the image was present and had to be pulled."
        self.image_requests = self._counter(
            "image_manager_ensure_image_requests_total", text, "pull_policy", "present_locally", "pull_required"
        )
        self.pull_intents = self._gauge("imagemanager_ondisk_pullintents", "Intents to pull an image on the disk.")
        self.pulled_records = self._gauge("imagemanager_ondisk_pulledrecords", "Records of pulled images on the disk.")
        self.images_collected = self._counter("image_garbage_collected_total", "Unused images removed.", "reason")
        text = (
            "Bytes of removed containers and images that the runtime server still had to delete at the last image GC."
        )
        self.runtime_trash = Gauge("pykubelet_runtime_trash_bytes", text, registry=self._registry)
        text = "Seconds to create, update or remove a cgroup."
        self.cgroup_duration = self._histogram("cgroup_manager_duration_seconds", text, _DEFAULT, "operation_type")
        text = "Seconds to create a pod's sandbox."
        self.sandbox_duration = self._histogram("run_podsandbox_duration_seconds", text, _DEFAULT, "runtime_handler")
        text = "Failed sandbox creations."
        self.sandbox_errors = self._counter("run_podsandbox_errors_total", text, "runtime_handler")
        self.hook_fallbacks = self._counter(
            "lifecycle_handler_http_fallbacks_total", "HTTPS lifecycle hooks that fell back to HTTP."
        )
        text = "Sleep hooks that were interrupted early."
        self.hook_sleeps_ended = self._counter("sleep_action_terminated_early_total", text)
        self.cgroup_version = self._gauge("cgroup_version", "The cgroup version of the host.")

    def _storage(self) -> None:
        """Create the instruments for volumes; names of storage operations have no ``kubelet_`` prefix."""
        text, labels = "Seconds that calls to CSI drivers took.", ("driver_name", "method_name", "grpc_status_code")
        name = "csi_operations_seconds"
        self.csi_duration = Histogram(name, text, (*labels, "migrated"), buckets=_CSI, registry=self._registry)
        name, text = "storage_operation_duration_seconds", "Seconds that operations on volumes took."
        labels = ("volume_plugin", "operation_name", "status")
        self.storage_duration = Histogram(name, text, (*labels, "migrated"), buckets=_CSI, registry=self._registry)
        name, text = "volume_operation_total_seconds", "Seconds from requesting an operation until it is done."
        two = ("plugin_name", "operation_name")
        self.volume_duration = Histogram(name, text, two, buckets=_CSI, registry=self._registry)
        self.image_volumes_requested = self._counter("image_volume_requested_total", "Image volumes requested.")
        self.image_volumes_mounted = self._counter("image_volume_mounted_succeed_total", "Image volumes mounted.")
        self.image_volumes_failed = self._counter("image_volume_mounted_errors_total", "Image volumes not mounted.")
        text = "Orphaned pods whose directories the last cleanup removed or tried to remove."
        self.orphans_cleaned = self._gauge("orphan_pod_cleaned_volumes", text)
        text = "Those of them whose directories could not be removed."
        self.orphans_left = self._gauge("orphan_pod_cleaned_volumes_errors", text)

    def _node(self) -> None:
        """Create the instruments for a new node's start-up, by the middle part of their names."""
        steps = {
            "pre_kubelet_": "Seconds from the machine's boot until the agent began.",
            "pre_registration_": "Seconds from the agent's start until it tried to register the node.",
            "registration_": "Seconds that registering the node took.",
            "post_registration_": "Seconds from the registration until the node was ready.",
            "": "Seconds from the machine's boot until the node was ready.",
        }
        self.startup = {name: self._gauge(f"node_startup_{name}duration_seconds", text) for name, text in steps.items()}

    def _pleg(self) -> None:
        text = "Seconds to list all pods of the runtime and find what changed."
        self.pleg_relist_duration = self._histogram("pleg_relist_duration_seconds", text, _DEFAULT)
        text = "Seconds between two relists."
        self.pleg_relist_interval = self._histogram("pleg_relist_interval_seconds", text, _DEFAULT)
        text = "Seconds to read the state of one pod."
        self.pleg_pod_relist_duration = self._histogram("pleg_pod_relist_duration_seconds", text, _DEFAULT)
        self.evented_connections = self._gauge(
            "evented_pleg_connection_success_count", "Connections to the runtime's event stream."
        )
        text = "Seconds from a runtime event until the agent handled it."
        self.evented_latency = self._histogram("evented_pleg_connection_latency_seconds", text, _DEFAULT)
        self.evented_errors = self._gauge(
            "evented_pleg_connection_error_count", "Connections to the runtime's event stream that failed."
        )

    def _http(self) -> None:
        self.http_requests = self._counter("http_requests_total", "HTTP requests.", *_HTTP)
        self.http_duration = self._histogram(
            "http_requests_duration_seconds", "Seconds to serve HTTP requests.", _DEFAULT, *_HTTP
        )
        text = "Exec, attach and port-forward over WebSocket."
        self.websocket_streams = self._counter("websocket_streaming_requests_total", text, "subresource")
        self.http_inflight = self._gauge("http_inflight_requests", "HTTP requests being served.", *_HTTP)
        text = "Connections that a server closed or rejected to keep its limits."
        name, labels = "pykubelet_http_connections_closed_total", ("server_type", "reason")
        self.http_connections_closed = Counter(name, text, labels, registry=self._registry)

    def _api(self) -> None:
        """Create the instruments for requests to the API server; their names have no prefix."""
        text = "Requests to the API server, by status code."
        self.rest_requests = Counter(
            "rest_client_requests_total", text, ("code", "method", "host"), registry=self._registry
        )
        text = "Seconds that requests to the API server took."
        name, labels = "rest_client_request_duration_seconds", ("verb", "host")
        self.rest_duration = Histogram(name, text, labels, buckets=_REST, registry=self._registry)
        self.build_info = Gauge(
            *("kubernetes_build_info", "The version; always 1.", ("git_version", "major", "minor", "platform")),
            registry=self._registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"kubelet_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"kubelet_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"kubelet_{name}", text, labels, buckets=buckets, registry=self._registry)


class ProbeInstruments:
    """The instruments of /metrics/probes; in a registry of their own because there are so many series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("probe_type", "container", "pod", "namespace")
        text = "Probes of a container, by result."
        by_result = ("probe_type", "result", "container", "pod", "namespace", "pod_uid")
        self.results = Counter("prober_probe_total", text, by_result, registry=registry)
        text = "Seconds that a probe took."
        self.duration = Histogram("prober_probe_duration_seconds", text, labels, buckets=_DEFAULT, registry=registry)
