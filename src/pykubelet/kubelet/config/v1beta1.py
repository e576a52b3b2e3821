"""KubeletConfiguration, ``kubelet.config.k8s.io/v1beta1``: every field of Kubernetes 1.36 with its default.

Defaults are those of the Go kubelet except for ``containerRuntimeEndpoint``, where empty means the agent's own runtime,
and ``failCgroupV1``: both cgroup versions are supported here.
"""

import msgspec

from pykubelet.models.core_v1 import Taint

Duration = str
"""A Go duration such as ``20s``; see :func:`pykubelet.base.units.parse_duration`."""

KIND = "KubeletConfiguration"
API_VERSION = "kubelet.config.k8s.io/v1beta1"


class _Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all configuration objects."""


class KubeletX509Authentication(_Config, frozen=True):
    """Authentication with client certificates."""

    client_ca_file: str = msgspec.field(default="", name="clientCAFile")


class KubeletWebhookAuthentication(_Config, frozen=True):
    """Authentication with bearer tokens, by TokenReview of the API server."""

    enabled: bool = True
    cache_ttl: Duration = msgspec.field(default="2m", name="cacheTTL")


class KubeletAnonymousAuthentication(_Config, frozen=True):
    """Acceptance of requests without credentials."""

    enabled: bool = False


class KubeletAuthentication(_Config, frozen=True):
    """Authentication of the kubelet API server."""

    x509: KubeletX509Authentication = KubeletX509Authentication()
    webhook: KubeletWebhookAuthentication = KubeletWebhookAuthentication()
    anonymous: KubeletAnonymousAuthentication = KubeletAnonymousAuthentication()


class KubeletWebhookAuthorization(_Config, frozen=True):
    """Cache times of authorization by SubjectAccessReview of the API server."""

    cache_authorized_ttl: Duration = msgspec.field(default="5m", name="cacheAuthorizedTTL")
    cache_unauthorized_ttl: Duration = msgspec.field(default="30s", name="cacheUnauthorizedTTL")


class KubeletAuthorization(_Config, frozen=True):
    """Authorization of the kubelet API server."""

    mode: str = "Webhook"
    webhook: KubeletWebhookAuthorization = KubeletWebhookAuthorization()


class MemoryReservation(_Config, frozen=True):
    """Memory reserved on one NUMA node."""

    numa_node: int
    limits: dict[str, str | int]


class ShutdownGracePeriodByPodPriority(_Config, frozen=True):
    """Grace period at node shutdown of pods with at least this priority."""

    priority: int
    shutdown_grace_period_seconds: int


class MemorySwapConfiguration(_Config, frozen=True):
    """Swap usage of containers."""

    swap_behavior: str = ""


class CrashLoopBackOffConfig(_Config, frozen=True):
    """Maximum of the container restart back-off."""

    max_container_restart_period: Duration = "300s"


class TracingConfiguration(_Config, frozen=True):
    """Spans for an OpenTelemetry collector. Without this object none are recorded."""

    endpoint: str = ""
    sampling_rate_per_million: int = 0


class UserNamespaces(_Config, frozen=True):
    """Size of the id range of each pod with its own user namespace."""

    ids_per_pod: int = msgspec.field(default=65536, name="idsPerPod")


class KubeletConfiguration(_Config, frozen=True):
    """The agent's configuration file."""

    kind: str = KIND
    api_version: str = API_VERSION
    enable_server: bool | None = None
    """None: enabled if the agent has a cluster, or another field of the server is set (see
    ``kubelet/config/server.py``)."""
    static_pod_path: str = ""
    pod_logs_dir: str = "/var/log/pods"
    sync_frequency: Duration = "1m"
    file_check_frequency: Duration = "20s"
    http_check_frequency: Duration = "20s"
    static_pod_url: str = msgspec.field(default="", name="staticPodURL")
    static_pod_url_header: dict[str, tuple[str, ...]] = msgspec.field(default={}, name="staticPodURLHeader")
    address: str = "0.0.0.0"
    port: int = 10250
    read_only_port: int = 0
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    rotate_certificates: bool = False
    server_tls_bootstrap: bool = msgspec.field(default=False, name="serverTLSBootstrap")
    authentication: KubeletAuthentication = KubeletAuthentication()
    authorization: KubeletAuthorization = KubeletAuthorization()
    registry_pull_qps: int = msgspec.field(default=5, name="registryPullQPS")
    registry_burst: int = 10
    image_pull_credentials_verification_policy: str = "NeverVerifyPreloadedImages"
    preloaded_images_verification_allowlist: tuple[str, ...] = ()
    event_record_qps: int = msgspec.field(default=50, name="eventRecordQPS")
    event_burst: int = 100
    enable_debugging_handlers: bool = True
    enable_contention_profiling: bool = False
    healthz_port: int = 10248
    healthz_bind_address: str = "127.0.0.1"
    oom_score_adj: int = -999
    cluster_domain: str = ""
    cluster_dns: tuple[str, ...] = msgspec.field(default=(), name="clusterDNS")
    streaming_connection_idle_timeout: Duration = "4h"
    node_status_update_frequency: Duration = "10s"
    node_status_report_frequency: Duration = "5m"
    node_lease_duration_seconds: int = 40
    image_minimum_gc_age: Duration = msgspec.field(default="2m", name="imageMinimumGCAge")
    image_maximum_gc_age: Duration = msgspec.field(default="0s", name="imageMaximumGCAge")
    image_gc_high_threshold_percent: int = msgspec.field(default=85, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: int = msgspec.field(default=80, name="imageGCLowThresholdPercent")
    volume_stats_agg_period: Duration = "1m"
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    cgroup_root: str = ""
    cgroups_per_qos: bool = msgspec.field(default=True, name="cgroupsPerQOS")
    cgroup_driver: str = "cgroupfs"
    cpu_manager_policy: str = "none"
    single_process_oom_kill: bool | None = msgspec.field(default=None, name="singleProcessOOMKill")
    cpu_manager_policy_options: dict[str, str] = {}
    cpu_manager_reconcile_period: Duration = "10s"
    memory_manager_policy: str = "None"
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: dict[str, str] = {}
    qos_reserved: dict[str, str] = {}
    runtime_request_timeout: Duration = "2m"
    hairpin_mode: str = "promiscuous-bridge"
    max_pods: int = 110
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_pids_limit: int = -1
    resolv_conf: str = "/etc/resolv.conf"
    run_once: bool = False
    cpu_cfs_quota: bool = msgspec.field(default=True, name="cpuCFSQuota")
    cpu_cfs_quota_period: Duration = msgspec.field(default="100ms", name="cpuCFSQuotaPeriod")
    node_status_max_images: int = 50
    max_open_files: int = 1_000_000
    content_type: str = "application/vnd.kubernetes.protobuf"
    kube_apiqps: int = msgspec.field(default=50, name="kubeAPIQPS")
    kube_api_burst: int = msgspec.field(default=100, name="kubeAPIBurst")
    serialize_image_pulls: bool | None = None
    max_parallel_image_pulls: int | None = None
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_pressure_transition_period: Duration = "5m"
    eviction_max_pod_grace_period: int = 0
    eviction_minimum_reclaim: dict[str, str] = {}
    merge_default_eviction_settings: bool = False
    pods_per_core: int = 0
    enable_controller_attach_detach: bool = True
    protect_kernel_defaults: bool = False
    make_ip_tables_util_chains: bool = msgspec.field(default=True, name="makeIPTablesUtilChains")
    iptables_masquerade_bit: int = 14
    iptables_drop_bit: int = 15
    feature_gates: dict[str, bool] = {}
    fail_swap_on: bool = True
    memory_swap: MemorySwapConfiguration = MemorySwapConfiguration()
    container_log_max_size: str = "10Mi"
    container_log_max_files: int = 5
    container_log_max_workers: int = 1
    container_log_monitor_interval: Duration = "10s"
    config_map_and_secret_change_detection_strategy: str = "Watch"
    system_reserved: dict[str, str] = {}
    kube_reserved: dict[str, str] = {}
    reserved_system_cp_us: str = msgspec.field(default="", name="reservedSystemCPUs")
    show_hidden_metrics_for_version: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    volume_plugin_dir: str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    provider_id: str = msgspec.field(default="", name="providerID")
    kernel_memcg_notification: bool = False
    logging: dict[str, object] = {}
    enable_system_log_handler: bool = True
    enable_system_log_query: bool = False
    shutdown_grace_period: Duration = "0s"
    shutdown_grace_period_critical_pods: Duration = "0s"
    shutdown_grace_period_by_pod_priority: tuple[ShutdownGracePeriodByPodPriority, ...] = ()
    crash_loop_back_off: CrashLoopBackOffConfig = CrashLoopBackOffConfig()
    reserved_memory: tuple[MemoryReservation, ...] = ()
    enable_profiling_handler: bool = True
    enable_debug_flags_handler: bool = True
    seccomp_default: bool = False
    memory_throttling_factor: float = 0.9
    memory_reservation_policy: str = "None"
    register_with_taints: tuple[Taint, ...] = ()
    register_node: bool = True
    tracing: TracingConfiguration | None = None
    local_storage_capacity_isolation: bool = True
    container_runtime_endpoint: str = ""
    image_service_endpoint: str = ""
    fail_cgroup_v1: bool = False
    user_namespaces: UserNamespaces = UserNamespaces()
