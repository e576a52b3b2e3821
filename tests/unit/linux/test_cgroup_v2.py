"""The v2 driver on a fake cgroup file system that keeps the kernel's rules."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver, CgroupResources, CgroupStats, Pressure, Stall
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.testing.cgroups import FakeCgroupFiles


@pytest.fixture
def files(tmp_path: Path) -> FakeCgroupFiles:
    return FakeCgroupFiles(tmp_path / "cgroup")


@pytest.fixture
def driver(files: FakeCgroupFiles) -> CgroupDriver:
    return CgroupV2(files.root, files)


def test_create_passes_controllers_down(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create("/kubepods/burstable/pod1", CgroupResources())
    for level in (files.root, files.root / "kubepods", files.root / "kubepods/burstable"):
        on = set((level / "cgroup.subtree_control").read_text().split())
        assert on >= {"cpu", "memory", "pids", "cpuset", "hugetlb"}
    assert driver.exists("/kubepods/burstable/pod1")
    assert (files.root / "kubepods/burstable/pod1/memory.max").read_text() == "max"


def test_settings_are_written_in_v2_terms(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create(
        "/pod",
        CgroupResources(
            cpu_shares=1024,
            cpu_quota_us=50_000,
            cpu_period_us=100_000,
            memory_max=Bytes(64 << 20),
            memory_high=Bytes(60 << 20),
            memory_low=Bytes(1 << 20),
            memory_min=Bytes(0),
            pids_max=100,
            cpuset_cpus="0-1",
            cpuset_mems="0",
            hugepages=(("2MB", Bytes(4 << 20)), ("16GB", Bytes(0))),
            unified=(("memory.oom.group", "1"),),
        ),
    )
    written = {name.removeprefix("pod/"): value for name, value in files.writes if name.startswith("pod/")}
    assert written == {
        "cpu.weight": "39",
        "cpu.max": "50000 100000",
        "memory.max": str(64 << 20),
        "memory.high": str(60 << 20),
        "memory.low": str(1 << 20),
        "memory.min": "0",
        "pids.max": "100",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "hugetlb.2MB.max": str(4 << 20),
        "hugetlb.2MB.rsvd.max": str(4 << 20),
        "memory.oom.group": "1",
    }


def test_update_lifts_limits_and_leaves_the_rest(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create("/pod", CgroupResources(cpu_quota_us=1000, cpu_period_us=100_000, pids_max=5))
    files.writes.clear()
    driver.update("/pod", CgroupResources(cpu_quota_us=UNLIMITED, cpu_period_us=100_000, memory_max=Bytes(UNLIMITED)))
    assert files.writes == [("pod/cpu.max", "max 100000"), ("pod/memory.max", "max")]
    assert (files.root / "pod/pids.max").read_text() == "5"


def test_create_again_changes_nothing_else(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create("/a/b", CgroupResources(pids_max=5))
    files.writes.clear()
    driver.create("/a/b", CgroupResources(pids_max=6))
    assert files.writes == [("a/b/pids.max", "6")]


def test_missing_controllers_are_skipped(tmp_path: Path) -> None:
    files = FakeCgroupFiles(tmp_path / "cgroup", controllers=("memory", "pids"))
    driver = CgroupV2(files.root, files)
    driver.create("/pod", CgroupResources(cpu_shares=2, memory_max=Bytes(1 << 20), hugepages=(("2MB", Bytes(0)),)))
    assert driver.exists("/pod")
    assert driver.stats("/pod").memory_usage == 0


def test_exists_wants_the_controllers_too(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    assert not driver.exists("/pod")
    files.make(files.root / "pod")  # before anything was passed on
    assert not driver.exists("/pod")
    driver.create("/pod", CgroupResources())
    assert driver.exists("/pod")


def test_a_root_with_processes_is_explained(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    files.make(files.root / "busy")
    (files.root / "busy/cgroup.procs").write_text("17\n")
    with pytest.raises(Transient, match="set cgroupRoot"):
        driver.create("/busy/kubepods", CgroupResources())


def test_delete_kills_and_removes_the_tree(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create("/pod/a/b", CgroupResources())
    (files.root / "pod/a/b/cgroup.procs").write_text("99999999\n")
    assert driver.procs("/pod") == {99999999}
    driver.delete("/pod")
    assert not (files.root / "pod").exists()
    driver.delete("/pod")


@pytest.mark.parametrize("path", ["/", "", "//", "/a/../..", ".."])
def test_the_root_is_never_touched(driver: CgroupDriver, path: str) -> None:
    with pytest.raises(Invalid):
        driver.delete(path)
    with pytest.raises(Invalid):
        driver.create(path, CgroupResources())


def test_stats_of_version_2_are_read_from_control_files(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    driver.create("/pod", CgroupResources())
    directory = files.root / "pod"
    (directory / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (directory / "memory.current").write_text("1000\n")
    (directory / "memory.stat").write_text("anon 300\nfile 600\ninactive_file 250\npgfault 7\npgmajfault 1\n")
    (directory / "memory.swap.current").write_text("5\n")
    (directory / "pids.current").write_text("3\n")
    (directory / "cpu.pressure").write_text("some avg10=1.50 avg60=0.25 avg300=0.00 total=99\n")
    (directory / "io.pressure").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.50 total=5\n"
    )
    assert driver.stats("/pod") == CgroupStats(
        cpu_usage_ns=1_500_000,
        memory_usage=Bytes(1000),
        memory_working_set=Bytes(750),
        memory_rss=Bytes(300),
        swap=Bytes(5),
        page_faults=7,
        major_page_faults=1,
        pids=3,
        cpu_pressure=Pressure(some=Stall(99, 1.5, 0.25, 0.0)),
        memory_pressure=None,
        io_pressure=Pressure(some=Stall(7), full=Stall(5, 0.0, 0.0, 0.5)),
    )


def test_pressure_that_the_kernel_does_not_measure(driver: CgroupDriver, files: FakeCgroupFiles) -> None:
    """With psi=0 the files are there, and reading them fails."""
    driver.create("/pod", CgroupResources())
    (files.root / "pod" / "cpu.pressure").mkdir()
    assert driver.stats("/pod").cpu_pressure is None


def test_missing_cgroup_is_empty_or_not_found(driver: CgroupDriver) -> None:
    assert driver.children("/nothing") == frozenset()
    assert driver.procs("/nothing") == frozenset()
    with pytest.raises(NotFound):
        driver.stats("/nothing")
    with pytest.raises(NotFound):
        driver.update("/nothing", CgroupResources(pids_max=1))


def test_children_of_a_cgroup_are_listed_by_name(driver: CgroupDriver) -> None:
    driver.create("/k/pod1", CgroupResources())
    driver.create("/k/pod2", CgroupResources())
    assert driver.children("/k") == {"pod1", "pod2"}
