"""Cgroups made by systemd: on a fake manager and a fake cgroup file system."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver, CgroupResources, Layout, Mode, slice_path, systemd_problem
from pykubelet.linux.cgroups.systemd import CgroupSystemd, properties
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.linux.transient_units import Property, Value
from pykubelet.testing.cgroups import FakeCgroupFiles

POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"


class FakeUnits:
    """Units by name with their properties; makes no cgroup."""

    def __init__(self) -> None:
        self.units: dict[str, dict[str, Value]] = {}
        self.stopped: list[str] = []

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        if name in self.units:
            raise Conflict(f"Unit {name} was already loaded")
        self.units[name] = {each.name: each.value for each in properties}

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        if name not in self.units:
            raise NotFound(f"Unit {name} not loaded")
        self.units[name] |= {each.name: each.value for each in properties}

    def stop(self, name: str) -> None:
        if name not in self.units:
            raise NotFound(f"Unit {name} not loaded")
        del self.units[name]
        self.stopped.append(name)


@pytest.fixture
def files(tmp_path: Path) -> FakeCgroupFiles:
    return FakeCgroupFiles(tmp_path / "cgroup")


@pytest.fixture
def units() -> FakeUnits:
    return FakeUnits()


@pytest.fixture
def driver(files: FakeCgroupFiles, units: FakeUnits) -> CgroupDriver:
    return CgroupSystemd(CgroupV2(files.root, files), units)


def test_every_level_is_a_slice(driver: CgroupDriver, files: FakeCgroupFiles, units: FakeUnits) -> None:
    driver.create(POD, CgroupResources(cpu_shares=1024, memory_max=Bytes(64 << 20), hugepages=(("2MB", Bytes(0)),)))
    assert list(units.units) == ["kubepods.slice", "kubepods-burstable.slice", "kubepods-burstable-pod1.slice"]
    unit = units.units["kubepods-burstable-pod1.slice"]
    assert unit["Wants"] == ["kubepods-burstable.slice"]
    assert (unit["CPUWeight"], unit["MemoryMax"]) == (39, 64 << 20)
    assert (unit["MemoryAccounting"], unit["TasksAccounting"], unit["DefaultDependencies"]) == (True, True, False)
    assert "MemoryMax" not in units.units["kubepods.slice"]
    # What systemd has no property for is in the files.
    assert (files.root / POD.lstrip("/") / "hugetlb.2MB.max").read_text() == "0"
    assert driver.exists(POD)


def test_create_again_sets_what_is_new(driver: CgroupDriver, units: FakeUnits) -> None:
    driver.create(POD, CgroupResources(cpu_shares=2))
    driver.create(POD, CgroupResources(cpu_shares=1024))
    assert units.units["kubepods-burstable-pod1.slice"]["CPUWeight"] == 39
    driver.update(POD, CgroupResources(pids_max=100))
    assert units.units["kubepods-burstable-pod1.slice"]["TasksMax"] == 100
    with pytest.raises(NotFound):
        driver.update("/other.slice", CgroupResources(pids_max=1))


def test_delete_stops_the_unit(driver: CgroupDriver, files: FakeCgroupFiles, units: FakeUnits) -> None:
    driver.create(POD, CgroupResources())
    driver.delete(POD)
    assert units.stopped == ["kubepods-burstable-pod1.slice"]
    assert not (files.root / POD.lstrip("/")).exists()
    driver.delete(POD)
    driver.delete("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice")
    assert len(units.stopped) == 1
    assert driver.children("/kubepods.slice") == {"kubepods-burstable.slice"}


def test_a_cgroup_without_its_unit_goes_too(driver: CgroupDriver, files: FakeCgroupFiles, units: FakeUnits) -> None:
    driver.create(POD, CgroupResources())
    units.units.clear()
    driver.delete(POD)
    assert not (files.root / POD.lstrip("/")).exists()


@pytest.mark.parametrize("path", ["/kubepods", "/kubepods.slice/pod1.slice", "/", "/a.slice/a-b", "/a-.slice"])
def test_path_that_is_no_slice_is_refused(driver: CgroupDriver, path: str) -> None:
    with pytest.raises(Invalid):
        driver.create(path, CgroupResources())


@pytest.mark.parametrize(
    ("name", "path"),
    [("a.slice", "/a.slice"), ("a-b_c-d.slice", "/a.slice/a-b_c.slice/a-b_c-d.slice")],
)
def test_slice_path_contains_all_parent_slices(name: str, path: str) -> None:
    assert slice_path(name) == path


@pytest.mark.parametrize("name", ["", ".slice", "-.slice", "a--b.slice", "a.scope", "/a.slice"])
def test_name_that_is_no_slice_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        slice_path(name)


@pytest.mark.parametrize(
    ("quota", "period", "seconds"),
    [(50_000, 100_000, 500_000), (100, 100_000, 10_000), (1_234, 100_000, 20_000), (UNLIMITED, None, (1 << 64) - 1)],
)
def test_quota_becomes_a_property_rounded_for_systemd(quota: int, period: int | None, seconds: int) -> None:
    found = {each.name: each.value for each in properties(CgroupResources(cpu_quota_us=quota, cpu_period_us=period))}
    assert found == {"CPUQuotaPerSecUSec": seconds, "CPUQuotaPeriodUSec": period or 100_000}


def test_memory_limits_become_properties_of_the_unit() -> None:
    wanted = CgroupResources(
        memory_min=Bytes(1), memory_low=Bytes(2), memory_high=Bytes(3), memory_max=Bytes(UNLIMITED)
    )
    found = {each.name: each.value for each in properties(wanted)}
    assert found == {"MemoryMin": 1, "MemoryLow": 2, "MemoryHigh": 3, "MemoryMax": (1 << 64) - 1}
    assert properties(CgroupResources()) == []


def test_version_1_is_refused() -> None:
    assert "needs cgroup version 2" in (systemd_problem(Layout(Mode.HYBRID)) or "")
