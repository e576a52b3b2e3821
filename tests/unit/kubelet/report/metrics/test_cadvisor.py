import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.kubelet.report.metrics.plan.cadvisor import cadvisor_text
from pykubelet.kubelet.types.resources.usage import CgroupUsage, CpuUsage, Reading, Readings
from tests.unit.kubelet.report.metrics.usage import AT, MACHINE, POD, READINGS

FAMILIES: dict[str, Metric] = {
    family.name: family for family in text_string_to_metric_families(cadvisor_text(READINGS).decode())
}
CONTAINER = {
    "container": "app",
    "id": f"{POD}/c1",
    "image": "busybox:1",
    "name": "c1",
    "namespace": "ns",
    "pod": "web",
}


def values(family: str, **labels: str) -> list[float]:
    """Values of the family's series that have these labels."""
    return [s.value for s in FAMILIES[family].samples if labels.items() <= s.labels.items()]


def test_names_that_dashboards_and_alerts_use() -> None:
    wanted = {
        *("container_cpu_usage_seconds", "container_cpu_user_seconds", "container_cpu_system_seconds"),
        *("container_memory_working_set_bytes", "container_memory_usage_bytes", "container_memory_rss"),
        *("container_memory_cache", "container_memory_swap", "container_memory_failures", "container_oom_events"),
        *("container_spec_memory_limit_bytes", "container_spec_cpu_quota", "container_spec_cpu_period"),
        *("container_spec_cpu_shares", "container_start_time_seconds", "container_last_seen"),
        *("container_network_receive_bytes", "container_network_transmit_packets_dropped"),
        *("container_fs_usage_bytes", "container_fs_limit_bytes", "container_fs_reads_bytes", "container_fs_writes"),
        *("container_processes", "container_threads", "container_sockets", "container_file_descriptors"),
        *("container_pressure_cpu_waiting_seconds", "machine_cpu_cores", "machine_memory_bytes"),
        *("container_scrape_error", "cadvisor_version_info"),
    }
    assert wanted <= FAMILIES.keys()


def test_a_container_has_all_its_labels() -> None:
    (sample,) = (s for s in FAMILIES["container_cpu_usage_seconds"].samples if s.labels["container"])
    assert sample.labels == {**CONTAINER, "cpu": "total"}
    assert sample.value == 2.5
    assert sample.timestamp == AT


def test_all_series_of_a_family_have_the_same_labels() -> None:
    for family in FAMILIES.values():
        assert len({frozenset(sample.labels) for sample in family.samples}) == 1, family.name
        assert len({tuple(sorted(sample.labels.items())) for sample in family.samples}) == len(family.samples)


def test_pods_and_the_machine_have_empty_labels_where_nothing_fits() -> None:
    assert values("container_memory_working_set_bytes", id=POD, pod="web", container="", name="", image="") == [60]
    assert values("container_memory_working_set_bytes", id="/", pod="", namespace="") == [60]


def test_the_network_of_a_pod_is_on_the_pod() -> None:
    assert values("container_network_receive_bytes", pod="web") == [11]
    assert values("container_network_transmit_bytes", pod="web", interface="eth0", container="") == [15]


def test_limits_that_are_not_there_are_zero_or_left_out() -> None:
    assert values("container_spec_memory_reservation_limit_bytes", container="app") == [0]
    assert "container_cpu_cfs_periods" not in FAMILIES
    assert "container_memory_failcnt" not in FAMILIES


@pytest.mark.parametrize(("quota", "there"), [(None, False), (50_000, True)])
def test_throttling_is_reported_only_with_a_quota(quota: int | None, there: bool) -> None:
    cpu = CpuUsage(total_ns=1, user_ns=1, system_ns=1, quota_us=quota, periods=0, throttled_periods=0, throttled_ns=0)
    usage = CgroupUsage(path="/a", at=AT, created=5.0, cpu=cpu)
    text = cadvisor_text(Readings(MACHINE, (Reading(usage=usage, started=5.0),))).decode()
    for name in ("periods_total", "throttled_periods_total", "throttled_seconds_total"):
        assert (f"container_cpu_cfs_{name}{{" in text) is there
    assert "container_cpu_system_seconds_total{" in text


def test_pressure_is_in_seconds() -> None:
    assert values("container_pressure_cpu_stalled_seconds", container="app") == [2]
    assert values("container_pressure_cpu_waiting_seconds", container="app") == [3]
    assert "container_pressure_io_waiting_seconds" not in FAMILIES


def test_bytes_of_each_operation_have_the_numbers_of_the_device() -> None:
    device = {"container": "app", "device": "/dev/sda", "major": "8", "minor": "0"}
    assert values("container_blkio_device_usage", operation="Read", **device) == [1]
    assert values("container_blkio_device_usage", operation="Write", **device) == [2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reads_merged", 1),
        ("sector_reads", 2),
        ("read_seconds", 0.003),
        ("writes_merged", 4),
        ("sector_writes", 5),
        ("write_seconds", 0.006),
        ("io_current", 7),
        ("io_time_seconds", 0.008),
        ("io_time_weighted_seconds", 0.009),
    ],
)
def test_activity_of_disks_is_the_nodes(name: str, value: float) -> None:
    assert values(f"container_fs_{name}") == values(f"container_fs_{name}", id="/", device="/dev/sda") == [value]


def test_inodes_of_a_file_system_are_counted_once() -> None:
    assert values("container_fs_inodes_total") == values("container_fs_inodes_total", id="/") == [10]
    assert values("container_fs_inodes_free") == [4]
