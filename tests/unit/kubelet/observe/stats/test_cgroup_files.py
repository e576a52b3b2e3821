import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.observe.stats.plan import cgroup_files
from pykubelet.kubelet.types.resources.stats import PsiData, PsiStats
from pykubelet.kubelet.types.resources.usage import CpuUsage, DeviceIo

V1 = {
    "cpuacct.usage": "1234567890\n",
    "cpuacct.stat": "user 70\nsystem 53\n",
    "cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 5000\n",
    "cpu.shares": "512\n",
    "cpu.cfs_quota_us": "50000\n",
    "cpu.cfs_period_us": "100000\n",
    "memory.usage_in_bytes": "10000\n",
    "memory.limit_in_bytes": "20000\n",
    "memory.memsw.limit_in_bytes": "25000\n",
    "memory.max_usage_in_bytes": "15000\n",
    "memory.failcnt": "3\n",
    "memory.soft_limit_in_bytes": "9223372036854771712\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "memory.stat": "cache 1\ntotal_cache 4000\ntotal_rss 3000\ntotal_inactive_file 1500\ntotal_active_file 500\n"
    "total_mapped_file 100\ntotal_pgfault 77\ntotal_pgmajfault 7\ntotal_swap 11\n",
    "blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 8192\n8:0 Total 12288\nTotal 12288\n",
    "blkio.throttle.io_serviced_recursive": "8:0 Read 1\n8:0 Write 2\n",
}
V2 = {
    "cpu.stat": "usage_usec 1234567\nuser_usec 700000\nsystem_usec 534567\nnr_periods 10\nnr_throttled 4\n"
    "throttled_usec 5\n",
    "cpu.max": "50000 100000\n",
    "cpu.weight": "20\n",
    "memory.current": "10000\n",
    "memory.max": "20000\n",
    "memory.swap.current": "11\n",
    "memory.swap.max": "max\n",
    "memory.peak": "15000\n",
    "memory.low": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n",
    "memory.stat": "anon 3000\nfile 4000\ninactive_file 1500\nactive_file 500\nfile_mapped 100\npgfault 77\n"
    "pgmajfault 7\nkernel 600\n",
    "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n253:1 \n",
    "cpu.pressure": "some avg10=1.50 avg60=0.25 avg300=0.00 total=99\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
}


def test_cpu_usage_is_parsed_of_both_cgroup_versions() -> None:
    assert cgroup_files.cpu_v1(V1) == CpuUsage(
        total_ns=1_234_567_890,
        user_ns=700_000_000,
        system_ns=530_000_000,
        shares=512,
        quota_us=50_000,
        period_us=100_000,
        periods=10,
        throttled_periods=4,
        throttled_ns=5000,
    )
    assert cgroup_files.cpu_v2(V2) == CpuUsage(
        total_ns=1_234_567_000,
        user_ns=700_000_000,
        system_ns=534_567_000,
        shares=500,
        quota_us=50_000,
        period_us=100_000,
        periods=10,
        throttled_periods=4,
        throttled_ns=5000,
    )


@pytest.mark.parametrize("version", [1, 2])
def test_memory_usage_is_parsed_of_both_cgroup_versions(version: int) -> None:
    found = cgroup_files.memory_v1(V1) if version == 1 else cgroup_files.memory_v2(V2)
    assert found is not None
    assert (found.usage, found.working_set, found.rss, found.cache) == (10_000, 8500, 3000, 4000)
    assert (found.mapped_file, found.active_file, found.inactive_file) == (100, 500, 1500)
    assert (found.page_faults, found.major_page_faults, found.failures, found.oom_kills) == (77, 7, 3, 2)
    assert (found.limit, found.max_usage, found.swap, found.reservation) == (20_000, 15_000, 11, None)
    assert found.swap_limit == (5000 if version == 1 else None)


def test_io_is_counted_by_device() -> None:
    expected = DeviceIo("/dev/8:0", "8:0", 4096, 8192, 1, 2)
    assert cgroup_files.io_v1(V1, "/dev/{}".format) == (expected,)
    assert cgroup_files.io_v2(V2, "/dev/{}".format) == (expected, DeviceIo("/dev/253:1", "253:1"))


def test_pressure_is_parsed_and_missing_files_are_none() -> None:
    found = cgroup_files.pressure(V2)
    assert found.cpu == PsiStats(full=PsiData(5, 0.0, 0.0, 0.0), some=PsiData(99, 1.5, 0.25, 0.0))
    assert found.memory is not None and found.memory.full.total == 0
    assert found.io is None


def test_missing_files_give_none() -> None:
    assert cgroup_files.cpu_v1({}) is None
    assert cgroup_files.cpu_v2({}) is None
    assert cgroup_files.memory_v1({}) is None
    assert cgroup_files.memory_v2({}) is None
    assert cgroup_files.io_v1({}, str) == cgroup_files.io_v2({}, str) == ()
    unlimited = cgroup_files.cpu_v1({"cpuacct.usage": "1", "cpu.cfs_quota_us": "-1"})
    assert unlimited is not None and unlimited.quota_us is None
    unlimited = cgroup_files.cpu_v2({"cpu.stat": "usage_usec 1\n", "cpu.max": "max 100000\n"})
    assert unlimited is not None and (unlimited.quota_us, unlimited.period_us) == (None, 100_000)


@given(st.dictionaries(st.sampled_from([*V1, *V2]), st.text(max_size=60)))
def test_malformed_files_raise_nothing(files: dict[str, str]) -> None:
    """The kernel writes no such thing, but a figure that is missing is better than a server that fails."""
    for read in (cgroup_files.cpu_v1, cgroup_files.cpu_v2, cgroup_files.memory_v1, cgroup_files.memory_v2):
        read(files)
    cgroup_files.io_v1(files, str)
    cgroup_files.io_v2(files, str)


def test_absent_thread_limit_is_zero_and_a_missing_file_is_unknown() -> None:
    assert [cgroup_files.thread_limit(text) for text in ("max\n", "100\n", "")] == [0, 100, None]
