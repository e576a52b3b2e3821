"""The rendered metrics: names, labels and values."""

import math
from itertools import pairwise

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.base.concurrency.blocking import hung
from pykubelet.base.concurrency.guard import Guard, item_failures
from pykubelet.kubelet.report.metrics import (
    CountsCollector,
    KubeletMetrics,
    NodeCounts,
    ProbeSample,
)
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.kubelet.types.reports.pod_counts import Lifecycle, WorkingPods
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import PodCondition, PodStatus
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.report.pods import REF, pod

COUNTS = NodeCounts(
    desired_pods={True: 3},
    active_pods={True: 2, False: 1},
    working_pods={WorkingPods(Lifecycle.SYNC): 2},
    mirror_pods=3,
    ephemeral_containers=1,
    running_pods=2,
    running_containers={"running": 4, "exited": 1},
    pleg_last_seen=1234.0,
)


def made(clock: VirtualClock | None = None) -> KubeletMetrics:
    metrics = KubeletMetrics(node_name="node-1", clock=clock or VirtualClock(), setup_seconds=lambda uid: 15.0)
    CountsCollector(lambda: COUNTS, metrics.registry)
    return metrics


def samples(text: bytes) -> dict[str, float]:
    """``name{label=value,…}`` to value, labels sorted."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_counts_are_taken_at_the_scrape() -> None:
    got = samples(made().render())
    expected = {
        "kubelet_node_name{node=node-1}": 1,
        "kubelet_desired_pods{static=true}": 3,
        "kubelet_desired_pods{static=}": 0,
        "kubelet_active_pods{static=true}": 2,
        "kubelet_active_pods{static=}": 1,
        "kubelet_working_pods{config=desired,lifecycle=sync,static=true}": 2,
        "kubelet_mirror_pods": 3,
        "kubelet_managed_ephemeral_containers": 1,
        "kubelet_running_pods": 2,
        "kubelet_running_containers{container_state=running}": 4,
        "kubelet_running_containers{container_state=exited}": 1,
        "kubelet_pleg_last_seen_seconds": 1234,
    }
    assert {name: got.get(name) for name in expected} == expected
    assert got["process_resident_memory_bytes"] > 1_000_000
    assert "process_start_time_seconds" in got
    assert not [name for name in got if name.split("{")[0].endswith("_created")]


def test_failing_items_and_hung_calls_are_counted() -> None:
    guard = Guard("test.metrics", VirtualClock().monotonic)
    before = item_failures()["test.metrics"]
    for _ in range(2):
        with guard.item("pod"):
            raise OSError(5, "Input/output error")
    got = samples(made().render())
    assert got["pykubelet_item_failures_total{loop=test.metrics}"] - before == 2
    assert got["pykubelet_hung_blocking_calls_now"] == len(hung())


def test_runtime_operations_are_counted_with_their_durations() -> None:
    metrics = made()
    metrics.calls.runtime_operation("create_container", 0.02, False)
    metrics.calls.runtime_operation("create_container", 0.5, True)
    metrics.images.image_pulled(7, 200 * 1024 * 1024)
    metrics.calls.csi_operation("d.csi", "/csi.v1.Node/NodePublishVolume", "OK", 0.3)
    metrics.images.credential_plugin("ecr", 0.3, True)
    metrics.images.credential_plugin("ecr", 0.2, False)
    metrics.images.credential_config("sha256:ab")
    metrics.images.pull_check("mustAuthenticate")
    metrics.images.pull_records(2, 3)
    metrics.node.cgroup_version(1)
    got = samples(metrics.render())
    assert got["kubelet_runtime_operations_total{operation_type=create_container}"] == 2
    assert got["kubelet_runtime_operations_errors_total{operation_type=create_container}"] == 1
    name = "kubelet_runtime_operations_duration_seconds"
    assert got[f"{name}_count{{operation_type=create_container}}"] == 2
    assert got[f"{name}_bucket{{le=0.03125,operation_type=create_container}}"] == 1
    name = "kubelet_image_pull_duration_seconds_bucket"
    assert got[f"{name}{{image_size_in_bytes=100MB-500MB,le=10.0}}"] == 1
    assert got["kubelet_credential_provider_plugin_duration_bucket{le=0.25,plugin_name=ecr}"] == 1
    assert got["kubelet_credential_provider_plugin_duration_count{plugin_name=ecr}"] == 2
    assert got["kubelet_credential_provider_plugin_errors_total{plugin_name=ecr}"] == 1
    assert got["kubelet_credential_provider_config_info{hash=sha256:ab}"] == 1
    assert got["kubelet_imagemanager_image_mustpull_checks_total{result=mustAuthenticate}"] == 1
    assert got["kubelet_imagemanager_ondisk_pullintents"] == 2
    assert got["kubelet_imagemanager_ondisk_pulledrecords"] == 3
    assert got["kubelet_cgroup_version"] == 1
    labels = "driver_name=d.csi,grpc_status_code=OK,le=0.5,method_name=/csi.v1.Node/NodePublishVolume,migrated=false"
    assert got[f"csi_operations_seconds_bucket{{{labels}}}"] == 1


def test_pods_and_containers_are_counted_with_their_changes() -> None:
    metrics = made()
    metrics.pods.worker_duration("sync", 0.2)
    metrics.pods.worker_started(0.004)
    metrics.pods.pod_restarted(static=True)
    metrics.pods.pod_orphaned()
    metrics.calls.runtime_operation("run_podsandbox", 0.1, True)
    got = samples(metrics.render())
    expected = {
        "kubelet_pod_worker_duration_seconds_count{operation_type=sync}": 1,
        "kubelet_pod_worker_start_duration_seconds_bucket{le=0.005}": 1,
        "kubelet_started_pods_errors_total": 1,
        "kubelet_restarted_pods_total{static=true}": 1,
        "kubelet_orphaned_runtime_pods_total": 1,
    }
    assert {name: got.get(name) for name in expected} == expected


def test_times_of_the_last_node_shutdown() -> None:
    metrics = made()
    metrics.node.shutdown_times(1_700_000_000.7, 1_700_000_009.2)
    got = samples(metrics.render())
    assert got["kubelet_graceful_shutdown_start_time_seconds"] == 1_700_000_000
    assert got["kubelet_graceful_shutdown_end_time_seconds"] == 1_700_000_009


def test_starts_are_counted_through_the_status() -> None:
    metrics = made()
    waiting = core.ContainerState(waiting=core.ContainerStateWaiting(reason="ErrImagePull"))
    statuses = [
        core.ContainerStatus(name="app", ready=False, restart_count=0),
        core.ContainerStatus(name="app", ready=False, restart_count=0, state=waiting),
        core.ContainerStatus(name="app", ready=False, restart_count=0, container_id="containerd://1"),
    ]
    ready = core.PodCondition(type="PodReadyToStartContainers", status="True")
    previous: core.PodStatus | None = None
    for i, status in enumerate((*statuses, statuses[-1])):
        now = core.PodStatus(phase="Pending", container_statuses=(status,), conditions=(ready,) if i else ())
        metrics.starts.status_changed(StatusChange(pod(), previous, now, i))
        previous = now
    got = samples(metrics.render())
    expected = {
        "kubelet_started_pods_total": 1,
        "kubelet_containers_per_pod_count_sum": 1,
        "kubelet_started_containers_total{container_type=container}": 1,
        "kubelet_started_containers_errors_total{code=ErrImagePull,container_type=container}": 1,
    }
    assert {name: got.get(name) for name in expected} == expected


def test_pod_with_a_user_namespace_fails_to_start_once_for_each_sandbox() -> None:
    """As upstream, which counts at the start of a sandbox only, and not each attempt of each container."""
    metrics = made()
    value = pod()
    value = replace(value, spec=replace(value.spec, host_users=False))
    previous = core.PodStatus(phase="Pending")
    ready = core.PodCondition(type="PodReadyToStartContainers", status="True")
    for sandbox in (True, True, True, False, True, True):
        for reason in ("ErrImagePull", "ImagePullBackOff"):
            state = core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason))
            failing = tuple(
                core.ContainerStatus(name=name, ready=False, restart_count=0, state=state) for name in ("app", "b")
            )
            conditions = (ready,) if sandbox else ()
            now = core.PodStatus(phase="Pending", container_statuses=failing, conditions=conditions)
            metrics.starts.status_changed(StatusChange(value, previous, now, 1))
            previous = now
    got = samples(metrics.render())
    assert got["kubelet_started_user_namespaced_pods_total"] == 2
    assert got["kubelet_started_user_namespaced_pods_errors_total"] == 2
    assert got["kubelet_started_containers_errors_total{code=ErrImagePull,container_type=container}"] == 12


def test_pod_found_running_at_start_is_not_counted_as_started() -> None:
    metrics = made()
    status = core.ContainerStatus(name="app", ready=True, restart_count=0, container_id="containerd://1")
    ready = core.PodCondition(type="PodReadyToStartContainers", status="True")
    now = core.PodStatus(phase="Running", container_statuses=(status,), conditions=(ready,))
    metrics.starts.status_changed(StatusChange(pod(), None, now, 1))
    got = samples(metrics.render())
    assert got["kubelet_started_pods_total"] == 0
    assert not [name for name in got if name.startswith("kubelet_started_containers_total")]


def test_pleg_relists_and_stream_failures_are_counted() -> None:
    metrics = made()
    metrics.pleg.pleg_relist(0.02, None)
    metrics.pleg.pleg_relist(0.02, 1.0)
    metrics.pleg.pleg_pod_read(0.001)
    metrics.pleg.event_stream_failed()
    metrics.pleg.event_stream_failed()
    text = metrics.render()
    got = samples(text)
    assert got["kubelet_pleg_relist_duration_seconds_count"] == 2
    assert got["kubelet_pleg_relist_interval_seconds_count"] == 1
    assert got["kubelet_pleg_pod_relist_duration_seconds_count"] == 1
    assert b"\nkubelet_evented_pleg_connection_error_count 2.0\n" in text


async def test_the_start_of_a_pod_is_measured_from_its_first_sight() -> None:
    clock = VirtualClock()
    metrics = made(clock)
    pending, running = core.PodStatus(phase="Pending"), core.PodStatus(phase="Running")
    metrics.starts.status_changed(StatusChange(pod(), None, pending, 1))
    await clock.advance(0.7)
    metrics.starts.status_changed(StatusChange(pod(), pending, pending, 2))
    metrics.starts.status_changed(StatusChange(pod(), pending, running, 3))
    metrics.starts.status_changed(StatusChange(pod(), running, running, 4))
    got = samples(metrics.render())
    assert got["kubelet_pod_start_duration_seconds_count"] == 1
    assert got["kubelet_pod_start_duration_seconds_sum"] == pytest.approx(0.7)


def test_a_pod_that_runs_already_or_never_does_is_not_measured() -> None:
    metrics = made()
    pending, failed = core.PodStatus(phase="Pending"), core.PodStatus(phase="Failed")
    metrics.starts.status_changed(StatusChange(pod(), None, core.PodStatus(phase="Running"), 1))
    metrics.starts.status_changed(StatusChange(pod(), None, pending, 2))
    metrics.starts.status_changed(StatusChange(pod(), pending, failed, 3))
    assert samples(metrics.render())["kubelet_pod_start_duration_seconds_count"] == 0


def test_ends_of_containers_are_counted_through_the_status() -> None:
    metrics = made()
    end = core.ContainerStateTerminated(exit_code=2, reason="Error")
    status = core.ContainerStatus(name="app", ready=False, restart_count=0, state=core.ContainerState(terminated=end))
    now = core.PodStatus(phase="Running", container_statuses=(status,))
    metrics.starts.status_changed(StatusChange(pod(), None, now, 1))
    metrics.starts.status_changed(StatusChange(pod(), now, now, 2))
    name = "kubelet_terminated_containers_total{container_type=container,exit_code=2,reason=Error}"
    assert samples(metrics.render())[name] == 1


def test_probes_are_apart_and_go_with_their_pod() -> None:
    metrics = made()
    metrics.probes.probe(ProbeSample(REF, "app", ProbeType.LIVENESS, "successful", 0.02))
    metrics.probes.probe(ProbeSample(REF, "app", ProbeType.LIVENESS, "failed", 1.0))
    other = PodRef("ns", "db", PodUID("uid-2"))
    metrics.probes.probe(ProbeSample(other, "app", ProbeType.READINESS, "failed", 1.0))
    labels = "container=app,namespace=ns,pod=web,pod_uid=uid-1,probe_type=Liveness"
    got = samples(metrics.render_probes())
    assert got[f"prober_probe_total{{{labels},result=successful}}"] == 1
    assert got[f"prober_probe_total{{{labels},result=failed}}"] == 1
    duration = "prober_probe_duration_seconds_count{container=app,namespace=ns,pod=web,probe_type=Liveness}"
    assert got[duration] == 1
    assert not [name for name in samples(metrics.render()) if name.startswith("prober")]
    metrics.starts.status_changed(StatusChange(pod(), core.PodStatus(), None, 3))
    metrics.probes.forget_pod(REF.uid)
    left = samples(metrics.render_probes())
    assert not [name for name in left if "pod=web" in name]
    assert [name for name in left if "pod=db" in name]


def test_http_requests_are_counted_also_when_they_fail() -> None:
    metrics = made()
    labels = "long_running=false,method=GET,path=/healthz,server_type=health"
    with metrics.http.http_request("GET", "/healthz", "health"):
        assert samples(metrics.render())[f"kubelet_http_inflight_requests{{{labels}}}"] == 1
    with pytest.raises(ValueError), metrics.http.http_request("GET", "/healthz", "health"):
        raise ValueError
    got = samples(metrics.render())
    assert got[f"kubelet_http_inflight_requests{{{labels}}}"] == 0
    assert got[f"kubelet_http_requests_total{{{labels}}}"] == 2
    assert got[f"kubelet_http_requests_duration_seconds_count{{{labels}}}"] == 2


def test_starts_are_measured_from_the_creation_of_the_pod() -> None:
    clock = VirtualClock(1_700_000_100.0)
    metrics = made(clock)
    created = time_from_unix(1_700_000_060.0)
    for number, source in enumerate(("api", "file")):
        annotations = {ANNOTATION_SOURCE: source}
        meta = replace(pod().metadata, uid=f"uid-{number}", creation_timestamp=created, annotations=annotations)
        value = replace(pod(), metadata=meta)
        pending, running = core.PodStatus(phase="Pending"), core.PodStatus(phase="Running")
        metrics.starts.status_changed(StatusChange(value, None, pending, 1))
        metrics.starts.status_changed(StatusChange(value, pending, running, 2))
    got = samples(metrics.render())
    assert got["kubelet_pod_start_total_duration_seconds_count"] == 1
    assert got["kubelet_pod_start_total_duration_seconds_sum"] == 40
    assert got["kubelet_pod_start_sli_duration_seconds_sum"] == 25, "pulls and init containers do not count"


def test_streams_over_websocket() -> None:
    metrics = made()
    metrics.http.websocket_streamed("exec")
    assert samples(metrics.render())["kubelet_websocket_streaming_requests_total{subresource=exec}"] == 1


def test_requests_to_the_api_server() -> None:
    metrics = made()
    metrics.calls.api_request("PATCH", "api:6443", "200", 0.02)
    metrics.calls.api_request("PATCH", "api:6443", "<error>", 30.0)
    metrics.node.status_synced(0.3)
    got = samples(metrics.render())
    assert got["rest_client_requests_total{code=200,host=api:6443,method=PATCH}"] == 1
    assert got["rest_client_requests_total{code=<error>,host=api:6443,method=PATCH}"] == 1
    assert got["rest_client_request_duration_seconds_count{host=api:6443,verb=PATCH}"] == 2
    assert got["kubelet_pod_status_sync_duration_seconds_bucket{le=0.5}"] == 1
    assert [name for name in got if name.startswith("kubernetes_build_info{git_version=v1.36.0,major=1,minor=36")]


def test_a_certificate_is_shown_with_the_time_it_has_left() -> None:
    metrics, left = made(), [math.inf]
    metrics.certificate_renewals("client").export_ttl(lambda: left[0])
    name = "kubelet_certificate_manager_client_ttl_seconds"
    assert samples(metrics.render())[name] == math.inf
    left[0] = 60.0
    assert samples(metrics.render())[name] == 60


def test_resizes_are_counted_by_the_pods_conditions() -> None:
    def status(*conditions: PodCondition) -> PodStatus:
        return PodStatus(phase="Running", conditions=conditions)

    def pending(reason: str, generation: int = 2) -> PodCondition:
        return PodCondition(type="PodResizePending", reason=reason, observed_generation=generation)

    def values(metrics: KubeletMetrics) -> list[float]:
        got = samples(metrics.render())
        names = (
            "pod_pending_resizes{reason=deferred}",
            "pod_pending_resizes{reason=infeasible}",
            "pod_in_progress_resizes",
            "pod_infeasible_resizes_total{reason_detail=insufficient_node_allocatable}",
        )
        return [got.get(f"kubelet_{name}", 0) for name in names]

    metrics = made()
    steps = [
        (None, [0, 0, 0, 0]),
        (status(), [0, 0, 0, 0]),
        (status(pending("Deferred")), [1, 0, 0, 0]),
        (status(pending("Deferred"), PodCondition(type="PodResizeInProgress")), [1, 0, 1, 0]),
        (status(pending("Infeasible")), [0, 1, 0, 1]),
        (status(pending("Infeasible")), [0, 1, 0, 1]),
        (status(pending("Infeasible", 3)), [0, 1, 0, 2]),
        (None, [0, 0, 0, 2]),
    ]
    for version, ((before, _), (now, expected)) in enumerate(pairwise(steps)):
        metrics.starts.status_changed(StatusChange(pod(), before, now, version))
        assert values(metrics) == expected


def test_renewals_of_certificates_are_counted_under_upstreams_names() -> None:
    metrics = made()
    client, server = metrics.certificate_renewals("client"), metrics.certificate_renewals("server")
    client.renewal_failed()
    client.replaced(5.0)
    server.renewal_failed()
    server.renewal_failed()
    server.replaced(3000.0)
    text = metrics.render().decode()
    assert "# TYPE kubelet_certificate_manager_client_expiration_renew_errors counter" in text
    assert "kubelet_certificate_manager_client_expiration_renew_errors 1.0" in text
    assert "# TYPE kubelet_server_expiration_renew_errors counter" in text
    assert "kubelet_server_expiration_renew_errors 2.0" in text
    name = "kubelet_certificate_manager_server_rotation_seconds"
    assert f'{name}_bucket{{le="60.0"}} 0.0' in text and f'{name}_bucket{{le="3600.0"}} 1.0' in text
    assert "client_rotation_seconds" not in text
