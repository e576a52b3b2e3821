"""Metrics of containers and pods."""

import os
from itertools import count

import pytest

from pykubelet.base.units import Bytes
from pykubelet.criserver.stats import processes
from pykubelet.criserver.stats.metrics import (
    LABELS,
    ContainerFacts,
    Disk,
    container_metrics,
    descriptors,
    pod_metrics,
)
from pykubelet.criserver.stats.processes import ProcessUse, measure
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import CgroupStats
from pykubelet.linux.cgroups.counters import CgroupCounters, DeviceUse, HugepageUse
from pykubelet.linux.filesystems.fsusage import FsUsage
from pykubelet.linux.procparse import NetDevice
from pykubelet.pb import runtime_v1_pb2 as pb

NS = 1_000_000_000
OWN = ("app", "/pod/app", "app:1", "c1", "default", "web")
VALUES = (
    *("cpu_user_ns", "cpu_system_ns", "periods", "throttled_periods", "throttled_ns", "memory_peak", "memory_cache"),
    *("memory_mapped", "memory_kernel", "memory_failures", "threads_max", "oom_kills"),
)
FULL = ContainerFacts(
    now=20 * NS,
    started_at=5 * NS,
    stats=CgroupStats(7 * NS, Bytes(100), Bytes(90), Bytes(80), Bytes(0), 1, 2, 3),
    counters=CgroupCounters(
        values=dict.fromkeys(VALUES, 3 * NS),
        faults={("pgfault", "container"): 5},
        devices=(DeviceUse(8, 0, "Read", Bytes(4096), 2), DeviceUse(8, 0, "Write", Bytes(512), 1)),
        hugepages=(HugepageUse("2MB", Bytes(0), Bytes(1)),),
        pressure={
            (resource, kind): 2_500_000 for resource in ("cpu", "memory", "io") for kind in ("waiting", "stalled")
        },
    ),
    processes=ProcessUse(2, 3, 10, 4, 1024),
    resources=pb.LinuxContainerResources(cpu_period=100000, cpu_quota=20000, cpu_shares=1024),
    disk=Disk("/var/lib", 12, FsUsage(Bytes(1000), Bytes(500), Bytes(500), 30, 20)),
)
NETWORK = (NetDevice("eth0", 1, 5, 2, 6, 3, 7, 4, 8),)


def _values(metrics: list[pb.Metric]) -> dict[tuple[str, ...], int]:
    return {(metric.name, *metric.label_values[len(LABELS) :]): metric.value.value for metric in metrics}


def test_every_metric_has_a_descriptor_with_as_many_labels() -> None:
    known = {each.name: each for each in descriptors()}
    assert len(known) == len(descriptors())
    metrics = container_metrics(OWN, FULL) + pod_metrics(OWN, NETWORK)
    assert {metric.name for metric in metrics} == set(known)
    for metric in metrics:
        assert len(metric.label_values) == len(known[metric.name].label_keys)
        assert tuple(metric.label_values[: len(LABELS)]) == OWN
    assert all(each.help and tuple(each.label_keys[: len(LABELS)]) == LABELS for each in known.values())


def test_container_metrics_have_values_in_their_units() -> None:
    found = _values(container_metrics(OWN, FULL))
    expected = {
        ("container_cpu_usage_seconds_total",): 7,
        ("container_cpu_cfs_throttled_seconds_total",): 3,
        ("container_memory_working_set_bytes",): 90,
        ("container_memory_failures_total", "pgfault", "container"): 5,
        ("container_fs_reads_bytes_total", "8:0"): 4096,
        ("container_fs_writes_total", "8:0"): 1,
        ("container_blkio_device_usage_total", "8:0", "8", "0", "Write"): 512,
        ("container_fs_inodes_free", "/var/lib"): 20,
        ("container_hugetlb_max_usage_bytes", "2MB"): 1,
        ("container_spec_cpu_quota",): 20000,
        ("container_ulimits_soft", "max_open_files"): 1024,
        ("container_pressure_io_stalled_seconds_total",): 2,
        ("container_last_seen",): 20,
        ("container_start_time_seconds",): 5,
    }
    assert {key: found[key] for key in expected} == expected


def test_metric_is_a_gauge_or_a_counter_by_its_name() -> None:
    kinds = {metric.name: metric.metric_type for metric in container_metrics(OWN, FULL)}
    assert kinds["container_memory_usage_bytes"] == pb.GAUGE
    assert kinds["container_cpu_usage_seconds_total"] == pb.COUNTER


def test_metrics_of_unknown_values_are_omitted() -> None:
    bare = ContainerFacts(1, 1, CgroupStats(), CgroupCounters(), ProcessUse(), pb.LinuxContainerResources())
    names = {metric.name for metric in container_metrics(OWN, bare)}
    assert "container_processes" in names
    assert not names & {"container_cpu_usage_seconds_total", "container_fs_usage_bytes", "container_spec_cpu_quota"}


def test_network_metrics_of_a_pod_are_by_interface() -> None:
    found = _values(pod_metrics(OWN, NETWORK))
    assert found["container_network_receive_packets_total", "eth0"] == 5
    assert found["container_network_transmit_packets_dropped_total", "eth0"] == 8
    assert pod_metrics(OWN, ()) == []


def test_processes_are_counted() -> None:
    use = measure(os.getpid(), [os.getpid(), 2**22 + 1])
    assert use.processes == 1
    assert use.threads >= 1
    assert use.descriptors >= use.sockets
    assert use.open_files_limit


def test_of_very_many_open_files_not_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MOST_DESCRIPTORS", 100)
    monkeypatch.setattr(procfs, "descriptors", lambda pid: ((number, "socket:[1]") for number in count()))
    use = measure(os.getpid(), [os.getpid(), os.getppid()])
    assert (use.processes, use.descriptors, use.sockets) == (2, 100, 100)
