"""Names, kinds and labels are upstream's (``pkg/kubelet/metrics`` and others); otherwise dashboards stay empty."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.report.metrics import (
    CountsCollector,
    KubeletMetrics,
    NodeCounts,
    ProbeSample,
    ProtectedMemory,
)
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.reports.pod_counts import Lifecycle, WorkingPods
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.work_meter import StoragePlugin
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.report.pods import REF, pod

TABLE = """
counter   kubelet_admission_rejections_total                       reason
gauge     kubelet_active_pods                                      static
histogram kubelet_cgroup_manager_duration_seconds                  operation_type
gauge     kubelet_cgroup_version
counter   kubelet_container_requested_resizes_total                operation requirement resource
histogram kubelet_containers_per_pod_count
gauge     kubelet_credential_provider_config_info                  hash
histogram kubelet_credential_provider_plugin_duration              plugin_name
counter   kubelet_credential_provider_plugin_errors_total          plugin_name
gauge     kubelet_cri_losing_support                               version
gauge     kubelet_desired_pods                                     static
counter   kubelet_evented_pleg_connection_error_count
histogram kubelet_evented_pleg_connection_latency_seconds
counter   kubelet_evented_pleg_connection_success_count
histogram kubelet_eviction_stats_age_seconds                       eviction_signal
counter   kubelet_evictions                                        eviction_signal
gauge     kubelet_first_network_pod_start_sli_duration_seconds
gauge     kubelet_graceful_shutdown_end_time_seconds
gauge     kubelet_graceful_shutdown_start_time_seconds
gauge     kubelet_http_inflight_requests                           long_running method path server_type
histogram kubelet_http_requests_duration_seconds                   long_running method path server_type
counter   kubelet_http_requests_total                              long_running method path server_type
counter   kubelet_image_garbage_collected_total                    reason
counter   kubelet_image_manager_ensure_image_requests_total        present_locally pull_policy pull_required
histogram kubelet_image_pull_duration_seconds                      image_size_in_bytes
counter   kubelet_image_volume_mounted_errors_total
counter   kubelet_image_volume_mounted_succeed_total
counter   kubelet_image_volume_requested_total
counter   kubelet_imagemanager_image_mustpull_checks_total         result
gauge     kubelet_imagemanager_ondisk_pulledrecords
gauge     kubelet_imagemanager_ondisk_pullintents
counter   kubelet_lifecycle_handler_http_fallbacks_total
gauge     kubelet_managed_ephemeral_containers
gauge     kubelet_memory_qos_node_memory_low_bytes
gauge     kubelet_memory_qos_node_memory_min_bytes
gauge     kubelet_metrics_provider                                 provider
gauge     kubelet_mirror_pods
gauge     kubelet_node_name                                        node
gauge     kubelet_node_startup_duration_seconds
gauge     kubelet_node_startup_post_registration_duration_seconds
gauge     kubelet_node_startup_pre_kubelet_duration_seconds
gauge     kubelet_node_startup_pre_registration_duration_seconds
gauge     kubelet_node_startup_registration_duration_seconds
gauge     kubelet_orphan_pod_cleaned_volumes
gauge     kubelet_orphan_pod_cleaned_volumes_errors
counter   kubelet_orphaned_runtime_pods_total
gauge     kubelet_pleg_last_seen_seconds
histogram kubelet_pleg_pod_relist_duration_seconds
histogram kubelet_pleg_relist_duration_seconds
histogram kubelet_pleg_relist_interval_seconds
counter   kubelet_pod_deferred_accepted_resizes_total              retry_trigger
gauge     kubelet_pod_in_progress_resizes
counter   kubelet_pod_infeasible_resizes_total                     reason_detail
gauge     kubelet_pod_pending_resizes                              reason
histogram kubelet_pod_resize_duration_milliseconds                 success
histogram kubelet_pod_start_duration_seconds
histogram kubelet_pod_start_sli_duration_seconds
histogram kubelet_pod_start_total_duration_seconds
histogram kubelet_pod_status_sync_duration_seconds
histogram kubelet_pod_worker_duration_seconds                      operation_type
histogram kubelet_pod_worker_start_duration_seconds
counter   kubelet_preemptions                                      preemption_signal
counter   kubelet_restarted_pods_total                             static
histogram kubelet_run_podsandbox_duration_seconds                  runtime_handler
counter   kubelet_run_podsandbox_errors_total                      runtime_handler
gauge     kubelet_running_containers                               container_state
gauge     kubelet_running_pods
histogram kubelet_runtime_operations_duration_seconds              operation_type
counter   kubelet_runtime_operations_errors_total                  operation_type
counter   kubelet_runtime_operations_total                         operation_type
counter   kubelet_sleep_action_terminated_early_total
counter   kubelet_started_containers_errors_total                  code container_type
counter   kubelet_started_containers_total                         container_type
counter   kubelet_started_pods_errors_total
counter   kubelet_started_pods_total
counter   kubelet_started_user_namespaced_pods_errors_total
counter   kubelet_started_user_namespaced_pods_total
counter   kubelet_terminated_containers_total                      container_type exit_code reason
counter   kubelet_websocket_streaming_requests_total               subresource
gauge     kubelet_working_pods                                     config lifecycle static
histogram csi_operations_seconds                                   driver_name grpc_status_code method_name migrated
histogram storage_operation_duration_seconds                       migrated operation_name status volume_plugin
gauge     volume_manager_total_volumes                             plugin_name state
histogram volume_operation_total_seconds                           operation_name plugin_name
gauge     plugin_manager_total_plugins                             socket_path state
gauge     kubernetes_build_info                                    git_version major minor platform
histogram rest_client_request_duration_seconds                     host verb
counter   rest_client_requests_total                               code host method
counter   prober_probe_total                                       container namespace pod pod_uid probe_type result
histogram prober_probe_duration_seconds                            container namespace pod probe_type
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
COUNTS = NodeCounts(
    working_pods={WorkingPods(Lifecycle.SYNC): 1},
    running_containers={"running": 1},
    plugins={("/r/d.sock", "desired_state_of_world"): 1},
    volumes={("kubernetes.io/csi:d.csi", "actual_state_of_world"): 1},
    protected=ProtectedMemory(min=3, low=2),
)


def reported() -> bytes:
    """Return the rendered metrics after every kind of update."""
    clock = VirtualClock(1_700_000_100.0)
    metrics = KubeletMetrics(node_name="n", clock=clock, booted_at=lambda: 1.0)
    CountsCollector(lambda: COUNTS, metrics.registry)
    metrics.node.cgroup_version(2)
    metrics.calls.runtime_operation("create_container", 0.1, True)
    metrics.calls.runtime_outdated()
    metrics.calls.csi_operation("d.csi", "/m", "OK", 0.1)
    metrics.images.image_pulled(1, 1)
    metrics.images.image_requested("IfNotPresent", True, None)
    metrics.images.credential_plugin("ecr", 1, True)
    metrics.images.credential_config("sha256:ab")
    metrics.images.pull_check("error")
    metrics.images.image_collected("space")
    metrics.node.evicted("memory.available")
    metrics.node.eviction_decided("memory.available", 0.1)
    metrics.pods.admission_rejected("OutOfcpu")
    metrics.pods.preempted("memory")
    metrics.pods.resize_accepted("pods_removed")
    metrics.pods.worker_duration("sync", 0.1)
    metrics.pods.pod_restarted(static=True)
    metrics.calls.api_request("GET", "h", "200", 0.1)
    metrics.http.websocket_streamed("exec")
    with metrics.http.http_request("GET", "/healthz", "health"):
        pass
    operations = metrics.operations
    operations.cgroup_operation("create", 0.1)
    operations.sandbox("", 0.1, failed=True)
    operations.storage_operation(StoragePlugin("p"), "volume_mount", 0.1, failed=False)
    operations.volume_mounted("p", 0.1)
    operations.pod_resized(0.1, failed=False)
    metrics.starts.pod_changed(with_cpu("1"), with_cpu("2"))
    statuses(metrics)
    metrics.probes.probe(ProbeSample(REF, "app", ProbeType.LIVENESS, "successful", 0.1))
    return metrics.render() + metrics.render_probes()


def with_cpu(cpu: str) -> core.Pod:
    container = core.Container(name="c", resources=core.ResourceRequirements(requests={"cpu": cpu}))
    return replace(pod(), spec=core.PodSpec(containers=(container,)))


def statuses(metrics: KubeletMetrics) -> None:
    waiting = core.ContainerState(waiting=core.ContainerStateWaiting(reason="ErrImagePull"))
    ended = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=1, reason="Error"))
    pending = core.PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    before = core.PodStatus(phase="Pending")
    for state, identity in ((waiting, ""), (ended, "c://1")):
        status = core.ContainerStatus(name="app", ready=False, restart_count=0, state=state, container_id=identity)
        for conditions in ((), (pending,)):
            now = core.PodStatus(phase="Pending", container_statuses=(status,), conditions=conditions)
            metrics.starts.status_changed(StatusChange(pod(), before, now, 1))
            before = now


SHOWN = reported().decode()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[1]))
def test_metric_is_rendered_as_in_the_go_kubelet(row: list[str]) -> None:
    kind, name, *labels = row
    assert f"# TYPE {name} {kind}\n" in SHOWN
    suffix = "_count" if kind == "histogram" else ""
    series = re.findall(rf"^{name}{suffix}(?:{{(.*)}})? ", SHOWN, re.MULTILINE)
    assert series, "no series"
    assert all(sorted(re.findall(r'(\w+)="', one)) == labels for one in series)


def test_own_metrics_are_those_of_the_documentation() -> None:
    registered = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in KubeletMetrics(node_name="n", clock=VirtualClock()).registry.collect()
    }
    own = {name for name in registered if name.startswith("pykubelet_")}
    text = (Path(__file__).resolve().parents[5] / "docs" / "parity.md").read_text()
    assert own == set(re.findall(r"^\| `(pykubelet_\w+)` \|", text, re.MULTILINE))


def test_nothing_else_has_the_prefix() -> None:
    shown = set(re.findall(r"^# TYPE (kubelet_\w+) ", SHOWN, re.MULTILINE))
    assert shown == {row[1] for row in ROWS if row[1].startswith("kubelet_")}


def test_protected_memory_is_shown_with_memory_qos_only() -> None:
    metrics = KubeletMetrics(node_name="n", clock=VirtualClock())
    CountsCollector(lambda: replace(COUNTS, protected=None), metrics.registry)
    assert "memory_qos" not in metrics.render().decode()
    assert "kubelet_memory_qos_node_memory_min_bytes 3.0\n" in SHOWN
    assert "kubelet_memory_qos_node_memory_low_bytes 2.0\n" in SHOWN


def test_requests_for_images_have_the_labels_of_the_go_kubelet() -> None:
    labels = '{present_locally="true",pull_policy="ifnotpresent",pull_required="unknown"}'
    assert f"kubelet_image_manager_ensure_image_requests_total{labels} 1.0\n" in SHOWN


async def test_the_start_of_a_new_node_is_reported_once() -> None:
    clock = VirtualClock(1000.0)
    metrics = KubeletMetrics(node_name="n", clock=clock, booted_at=lambda: 900.0)
    CountsCollector(lambda: COUNTS, metrics.registry)
    for step in (metrics.startup.registering, metrics.startup.registered, metrics.startup.ready):
        await clock.advance(2.0)
        for _ in range(2):
            step()
            await clock.advance(1.0)
    text = metrics.render().decode()
    found = dict(re.findall(r"^kubelet_node_startup_(\w*)duration_seconds (\S+)$", text, re.MULTILINE))
    wanted = {"pre_kubelet_": 100, "pre_registration_": 2, "registration_": 4, "post_registration_": 4, "": 110}
    assert {name: float(value) for name, value in found.items()} == wanted


def test_the_start_of_a_node_that_was_there_is_not_reported() -> None:
    metrics = KubeletMetrics(node_name="n", clock=VirtualClock(), booted_at=lambda: 900.0)
    CountsCollector(lambda: COUNTS, metrics.registry)
    metrics.startup.registering()
    metrics.startup.ready()
    assert "kubelet_node_startup_duration_seconds 0.0" in metrics.render().decode()


def test_the_first_pod_with_a_network_is_shown_and_no_other() -> None:
    metrics = KubeletMetrics(node_name="n", clock=VirtualClock(1_700_000_100.0))
    CountsCollector(lambda: COUNTS, metrics.registry)
    pending, running = core.PodStatus(phase="Pending"), core.PodStatus(phase="Running")
    for number, (created, on_host) in enumerate(((90, True), (60, False), (50, False))):
        meta = replace(pod().metadata, uid=f"u{number}", creation_timestamp=time_from_unix(1_700_000_000.0 + created))
        meta = replace(meta, annotations={"kubernetes.io/config.source": "api"})
        value = replace(pod(), metadata=meta, spec=replace(pod().spec, host_network=on_host))
        metrics.starts.status_changed(StatusChange(value, None, pending, 1))
        metrics.starts.status_changed(StatusChange(value, pending, running, 2))
    assert "kubelet_first_network_pod_start_sli_duration_seconds 40.0" in metrics.render().decode()
