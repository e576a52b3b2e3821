"""Everything that a cgroup counts, from directories laid out as the kernel lays them out."""

from pathlib import Path

from pykubelet.base.units import MIB, Bytes
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.cgroups.counters import CgroupCounterReader, DeviceUse, HugepageUse, parse_blkio, parse_io_stat


def _write(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text)


def test_counters_of_version_2_are_read_in_common_units(tmp_path: Path) -> None:
    _write(
        tmp_path / "pod" / "c",
        {
            "cpu.stat": "usage_usec 90\nuser_usec 60\nsystem_usec 30\nnr_periods 8\nnr_throttled 2\nthrottled_usec 7\n",
            "memory.stat": "anon 1\nfile 2\nkernel 3\nfile_mapped 4\npgfault 50\npgmajfault 6\n",
            "memory.peak": "1048576\n",
            "memory.events": "low 0\nmax 9\noom_kill 1\n",
            "pids.max": "max\n",
            "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
            "hugetlb.2MB.current": "2097152\n",
            "hugetlb.2MB.rsvd.current": "0\n",
            "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=4711\nfull avg10=0.00 total=11\n",
        },
    )
    counters = CgroupCounterReader(Layout(Mode.V2, unified=tmp_path)).read("/pod/c")
    assert counters.values == {
        "cpu_user_ns": 60_000,
        "cpu_system_ns": 30_000,
        "periods": 8,
        "throttled_periods": 2,
        "throttled_ns": 7_000,
        "memory_peak": MIB,
        "memory_cache": 2,
        "memory_mapped": 4,
        "memory_kernel": 3,
        "memory_failures": 9,
        "threads_max": 0,
        "oom_kills": 1,
    }
    assert counters.faults["pgfault", "hierarchy"] == 50
    assert counters.devices == (DeviceUse(8, 0, "Read", Bytes(4096), 1), DeviceUse(8, 0, "Write", Bytes(8192), 2))
    assert counters.hugepages == (HugepageUse("2MB", Bytes(2 * MIB), None),)
    assert counters.pressure == {("cpu", "waiting"): 4711, ("cpu", "stalled"): 11}


def test_a_container_below_its_scope(tmp_path: Path) -> None:
    """crun and systemd: throttling and limits are not in the scope."""
    scope = tmp_path / "pods.slice" / "cri-1.scope"
    _write(scope, {"cgroup.procs": "", "cpu.stat": "nr_periods 0\nnr_throttled 0\n", "pids.max": "max\n"})
    _write(scope / "container", {"cpu.stat": "nr_periods 8\nnr_throttled 2\n", "pids.max": "100\n"})
    counters = CgroupCounterReader(Layout(Mode.V2, unified=tmp_path)).read("/pods.slice/cri-1.scope")
    assert counters.values == {"periods": 8, "throttled_periods": 2, "threads_max": 100}


def test_counters_of_version_1_are_read_in_common_units(tmp_path: Path) -> None:
    files = {
        "cpu": {"cpu.stat": "nr_periods 8\nnr_throttled 2\nthrottled_time 7000\n"},
        "cpuacct": {"cpuacct.usage_user": "60\n", "cpuacct.usage_sys": "30\n"},
        "memory": {
            "memory.stat": "pgfault 5\ntotal_cache 2\ntotal_mapped_file 4\ntotal_pgfault 50\n",
            "memory.max_usage_in_bytes": "1048576\n",
            "memory.kmem.usage_in_bytes": "3\n",
            "memory.failcnt": "9\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        },
        "pids": {"pids.max": "100\n"},
        "blkio": {
            "blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Total 4096\nTotal 4096\n",
            "blkio.throttle.io_serviced_recursive": "8:0 Read 1\n",
        },
        "hugetlb": {"hugetlb.2MB.usage_in_bytes": "0\n", "hugetlb.2MB.max_usage_in_bytes": "2097152\n"},
    }
    for controller, content in files.items():
        _write(tmp_path / controller / "c", content)
    layout = Layout(Mode.HYBRID, controllers={name: tmp_path / name for name in files})
    counters = CgroupCounterReader(layout).read("/c")
    assert counters.values == {
        "cpu_user_ns": 60,
        "cpu_system_ns": 30,
        "periods": 8,
        "throttled_periods": 2,
        "throttled_ns": 7000,
        "memory_peak": MIB,
        "memory_cache": 2,
        "memory_mapped": 4,
        "memory_kernel": 3,
        "memory_failures": 9,
        "threads_max": 100,
        "oom_kills": 1,
    }
    assert counters.faults == {("pgfault", "container"): 5, ("pgfault", "hierarchy"): 50}
    assert counters.devices == (DeviceUse(8, 0, "Read", Bytes(4096), 1),)
    assert counters.hugepages == (HugepageUse("2MB", Bytes(0), Bytes(2 * MIB)),)


def test_a_cgroup_that_is_gone_counts_nothing(tmp_path: Path) -> None:
    for layout in (Layout(Mode.V2, unified=tmp_path), Layout(Mode.V1), Layout(Mode.NONE)):
        counters = CgroupCounterReader(layout).read("/gone")
        assert not counters.values
        assert counters.devices == ()


def test_odd_lines_are_skipped() -> None:
    assert parse_io_stat("\n8:0\nnonsense\n253:1 rbytes=1\n") == (DeviceUse(253, 1, "Read", Bytes(1), 0),)
    assert parse_blkio("Total 0\n8:0 Discard 5\n", "") == ()
