"""The metrics of the Go kubelet: each is in the agent's code, or docs/parity.md says that it is missing."""

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[5]
UPSTREAM = frozenset(
    re.findall(
        r"\w+",
        """
    container_blkio_device_usage_total container_cpu_cfs_burst_periods_total container_cpu_cfs_burst_seconds_total
    container_cpu_load_average_10s container_fs_io_current container_fs_io_time_seconds_total
    container_fs_io_time_weighted_seconds_total container_fs_read_seconds_total container_fs_reads_merged_total
    container_fs_sector_reads_total container_fs_sector_writes_total container_fs_write_seconds_total
    container_fs_writes_merged_total container_tasks_state csi_operations_seconds
    dra_grpc_operations_duration_seconds dra_operations_duration_seconds
    force_cleaned_failed_volume_operation_errors_total force_cleaned_failed_volume_operations_total go_goroutines
    kubelet_active_pods kubelet_admission_rejections_total
    kubelet_certificate_manager_client_expiration_renew_errors kubelet_certificate_manager_server_rotation_seconds
    kubelet_cgroup_manager_duration_seconds kubelet_cgroup_version kubelet_container_aligned_compute_resources_count
    kubelet_container_aligned_compute_resources_failure_count kubelet_container_requested_resizes_total
    kubelet_containers_per_pod_count kubelet_cpu_manager_allocation_per_numa
    kubelet_cpu_manager_exclusive_cpu_allocation_count kubelet_cpu_manager_pinning_errors_total
    kubelet_cpu_manager_pinning_requests_total kubelet_cpu_manager_shared_pool_size_millicores
    kubelet_cri_losing_support kubelet_desired_pods kubelet_device_plugin_alloc_duration_seconds
    kubelet_device_plugin_registration_total kubelet_evented_pleg_connection_error_count
    kubelet_evented_pleg_connection_latency_seconds kubelet_evented_pleg_connection_success_count
    kubelet_eviction_stats_age_seconds kubelet_evictions kubelet_first_network_pod_start_sli_duration_seconds
    kubelet_graceful_shutdown_end_time_seconds kubelet_graceful_shutdown_start_time_seconds
    kubelet_image_garbage_collected_total kubelet_image_pull_duration_seconds
    kubelet_image_volume_mounted_errors_total kubelet_image_volume_mounted_succeed_total
    kubelet_image_volume_requested_total kubelet_lifecycle_handler_http_fallbacks_total
    kubelet_managed_ephemeral_containers kubelet_memory_manager_pinning_errors_total
    kubelet_memory_manager_pinning_requests_total kubelet_memory_qos_node_memory_low_bytes
    kubelet_memory_qos_node_memory_min_bytes kubelet_mirror_pods kubelet_node_name
    kubelet_orphan_pod_cleaned_volumes
    kubelet_orphan_pod_cleaned_volumes_errors kubelet_orphaned_runtime_pods_total kubelet_pleg_discard_events
    kubelet_pleg_last_seen_seconds kubelet_pleg_pod_relist_duration_seconds kubelet_pleg_relist_duration_seconds
    kubelet_pleg_relist_interval_seconds kubelet_pod_deferred_accepted_resizes_total kubelet_pod_in_progress_resizes
    kubelet_pod_infeasible_resizes_total kubelet_pod_pending_resizes kubelet_pod_resize_duration_milliseconds
    kubelet_pod_resources_endpoint_errors_get kubelet_pod_resources_endpoint_errors_get_allocatable
    kubelet_pod_resources_endpoint_errors_list kubelet_pod_resources_endpoint_requests_get
    kubelet_pod_resources_endpoint_requests_get_allocatable kubelet_pod_resources_endpoint_requests_list
    kubelet_pod_resources_endpoint_requests_total kubelet_pod_start_duration_seconds
    kubelet_pod_start_sli_duration_seconds kubelet_pod_start_total_duration_seconds
    kubelet_pod_status_sync_duration_seconds kubelet_pod_watch_events_dropped_total
    kubelet_pod_worker_duration_seconds kubelet_pod_worker_start_duration_seconds kubelet_podcertificate_states
    kubelet_preemptions kubelet_resource_manager_allocations_total kubelet_restarted_pods_total
    kubelet_run_podsandbox_duration_seconds kubelet_run_podsandbox_errors_total kubelet_running_containers
    kubelet_running_pods kubelet_runtime_operations_duration_seconds kubelet_runtime_operations_errors_total
    kubelet_runtime_operations_total kubelet_server_expiration_renew_errors
    kubelet_sleep_action_terminated_early_total kubelet_started_containers_errors_total
    kubelet_started_containers_total kubelet_started_host_process_containers_errors_total
    kubelet_started_host_process_containers_total kubelet_started_pods_errors_total kubelet_started_pods_total
    kubelet_started_user_namespaced_pods_errors_total kubelet_started_user_namespaced_pods_total
    kubelet_terminated_containers_total kubelet_topology_manager_admission_duration_ms
    kubelet_topology_manager_admission_errors_total kubelet_topology_manager_admission_requests_total
    kubelet_volume_stats_health_status_abnormal kubelet_working_pods kubernetes_build_info
    dra_resource_claims_in_use disabled_metrics_total hidden_metrics_total informer_processing_latency_seconds
    informer_queued_items kubelet_certificate_manager_client_ttl_seconds
    kubelet_certificate_manager_server_ttl_seconds kubelet_container_log_filesystem_used_bytes
    kubelet_credential_provider_config_info kubelet_credential_provider_plugin_duration
    kubelet_credential_provider_plugin_errors_total kubelet_http_inflight_requests
    kubelet_http_requests_duration_seconds kubelet_http_requests_total
    kubelet_image_manager_ensure_image_requests_total kubelet_imagemanager_image_mustpull_checks_total
    kubelet_imagemanager_inmemory_pulledrecords_usage_percent kubelet_imagemanager_inmemory_pullintents_usage_percent
    kubelet_imagemanager_ondisk_pulledrecords kubelet_imagemanager_ondisk_pullintents kubelet_metrics_provider
    kubelet_volume_metric_collection_duration_seconds kubelet_volume_stats_available_bytes
    kubelet_volume_stats_capacity_bytes kubelet_volume_stats_inodes kubelet_volume_stats_inodes_free
    kubelet_volume_stats_inodes_used kubelet_volume_stats_used_bytes kubelet_websocket_streaming_requests_total
    kubernetes_feature_enabled kubernetes_healthcheck kubernetes_healthchecks_total leader_election_master_status
    leader_election_slowpath_total plugin_manager_total_plugins prober_probe_duration_seconds prober_probe_total
    reconstruct_volume_operations_errors_total reconstruct_volume_operations_total registered_metrics_total
    rest_client_dns_resolution_duration_seconds rest_client_exec_plugin_call_total
    rest_client_exec_plugin_certificate_rotation_age rest_client_exec_plugin_policy_call_total
    rest_client_exec_plugin_ttl_seconds rest_client_request_duration_seconds rest_client_requests_total
    rest_client_rate_limiter_duration_seconds rest_client_request_retries_total rest_client_request_size_bytes
    rest_client_response_size_bytes rest_client_transport_cache_entries rest_client_transport_create_calls_total
    running_managed_controllers storage_operation_duration_seconds version_info
    volume_manager_selinux_container_errors_total
    volume_manager_selinux_container_warnings_total volume_manager_selinux_pod_context_mismatch_errors_total
    volume_manager_selinux_pod_context_mismatch_warnings_total
    volume_manager_selinux_volume_context_mismatch_errors_total
    volume_manager_selinux_volume_context_mismatch_warnings_total volume_manager_selinux_volumes_admitted_total
    volume_manager_total_volumes volume_operation_total_seconds workqueue_adds_total workqueue_depth
    workqueue_longest_running_processor_seconds workqueue_queue_duration_seconds workqueue_retries_total
    workqueue_unfinished_work_seconds workqueue_work_duration_seconds
    """,
    )
)
"""Metrics of 1.36: those that Kubernetes documents for the kubelet, and those of its libraries that dashboards use.

Without those of ``/metrics/resource``, and ``kubelet_node_startup_*``, which `test_names.py` reads.
"""


def _in_code() -> set[str]:
    """Return the names of metrics in the code, some of them without prefix, and counters without ``_total``."""
    texts: set[str] = set()
    for path in (REPOSITORY / "src" / "pykubelet" / "kubelet").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        texts |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {name for name in UPSTREAM if not _forms(name).isdisjoint(texts)}


def _forms(name: str) -> set[str]:
    short = name.removeprefix("kubelet_")
    return {name, name.removesuffix("_total"), short, short.removesuffix("_total")}


def _stated() -> list[str]:
    """Return the patterns of the metrics that docs/parity.md names as missing; ``…`` stands for a known beginning."""
    (row,) = re.findall(r"^\| metrics with upstream's names .*$", (REPOSITORY / "docs" / "parity.md").read_text(), re.M)
    missing = row.partition("Without a counterpart here, and so missing: ")[2].partition("`kubernetes_build_info` has")[
        0
    ]
    found: list[str] = []
    for name in re.findall(r"`([^`]+)`", missing):
        start, _, rest = name.replace("…", "*").partition("{")
        choices, _, end = rest.partition("}")
        found += [f"{start}{choice}{end}" for choice in choices.split(",")]
    return found


def test_each_metric_of_upstream_is_there_or_stated_as_missing() -> None:
    stated = {name for name in UPSTREAM if any(fnmatchcase(name, pattern) for pattern in _stated())}
    assert UPSTREAM - _in_code() == stated


def test_each_stated_pattern_is_one_of_upstream() -> None:
    for pattern in _stated():
        assert any(fnmatchcase(name, pattern) for name in UPSTREAM), pattern
