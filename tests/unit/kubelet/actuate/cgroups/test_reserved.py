"""The limits of the cgroups of daemons (kubeReservedCgroup, systemReservedCgroup)."""

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import (
    NameStyle,
    NodePolicy,
    PodCgroupConfig,
    PodCgroupManager,
    ReservedCgroup,
    RootLimits,
    open_manager,
)
from pykubelet.linux.cgroups import CgroupResources, Mode, detect, open_driver, problem
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.testing.cgroups import FakeCgroupFiles
from pykubelet.testing.clock import VirtualClock

LIMITS = CgroupResources(cpu_shares=512, memory_max=Bytes(1 << 30), pids_max=300)
CONFIG = PodCgroupConfig(policy=NodePolicy(memory_capacity=Bytes(8 << 30)), root_limits=RootLimits(cpu=MilliCPU(1500)))


@pytest.fixture
def files(tmp_path: Path) -> FakeCgroupFiles:
    return FakeCgroupFiles(tmp_path / "cgroup")


def manager(files: FakeCgroupFiles, *reserved: ReservedCgroup, style: NameStyle) -> PodCgroupManager:
    config = replace(CONFIG, reserved=reserved, style=style)
    return PodCgroupManager(cgroups=CgroupV2(files.root, files), config=config, clock=VirtualClock())


@pytest.mark.parametrize(
    ("style", "given", "directory"),
    [
        (NameStyle.CGROUPFS, "/daemons/kube", "daemons/kube"),
        (NameStyle.SYSTEMD, "/system.slice", "system.slice"),
        (NameStyle.SYSTEMD, "system-kube.slice", "system.slice/system-kube.slice"),
    ],
)
async def test_existing_cgroup_of_daemons_gets_its_limits(
    files: FakeCgroupFiles, style: NameStyle, given: str, directory: str
) -> None:
    CgroupV2(files.root, files).create(f"/{directory}", CgroupResources())
    enforced = await manager(files, ReservedCgroup("kube", given, LIMITS), style=style).levels.start()
    assert enforced == [
        "Updated Node Allocatable limit across pods",
        f"Updated limits on kube reserved cgroup {given}",
    ]
    here = files.root / directory
    assert [(here / name).read_text() for name in ("memory.max", "pids.max")] == [str(1 << 30), "300"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/none", "kubeReservedCgroup: '/none' cgroup does not exist"),
        ("/", "kubeReservedCgroup: the root cgroup cannot be limited"),
    ],
)
async def test_cgroup_that_does_not_exist_stops_the_start(files: FakeCgroupFiles, path: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await manager(files, ReservedCgroup("kube", path, LIMITS), style=NameStyle.CGROUPFS).levels.start()


async def test_rejected_limit_stops_the_start(files: FakeCgroupFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    CgroupV2(files.root, files).create("/daemons", CgroupResources())
    write = files.write

    def refuse(path: Path, value: str) -> None:
        if path.parts[-2:] == ("daemons", "memory.max"):
            raise PykubeletError("busy")
        write(path, value)

    monkeypatch.setattr(files, "write", refuse)
    expected = "Failed to enforce System Reserved Cgroup Limits on '/daemons': busy"
    with pytest.raises(Permanent, match=expected):
        await manager(files, ReservedCgroup("system", "/daemons", LIMITS), style=NameStyle.CGROUPFS).levels.start()


async def test_reservations_without_usable_cgroups_stop_the_start() -> None:
    config = replace(CONFIG, reserved=(ReservedCgroup("system", "/daemons", LIMITS),))
    broken = PodCgroupManager(cgroups=None, config=config, clock=VirtualClock(), why_not="read-only")
    with pytest.raises(Permanent, match="enforceNodeAllocatable: cgroups cannot be used: read-only"):
        await broken.levels.start()


async def test_limit_of_all_pods_of_an_earlier_configuration_is_removed(files: FakeCgroupFiles) -> None:
    limited = replace(CONFIG, root_limits=RootLimits(cpu=MilliCPU(1500), memory=Bytes(1 << 30), pids=100))
    cgroups = CgroupV2(files.root, files)
    await PodCgroupManager(cgroups=cgroups, config=limited, clock=VirtualClock()).levels.start()
    assert (files.root / "kubepods/memory.max").read_text() == str(1 << 30)
    await PodCgroupManager(cgroups=cgroups, config=CONFIG, clock=VirtualClock()).levels.start()
    assert (files.root / "kubepods/memory.max").read_text() == "max"
    assert (files.root / "kubepods/pids.max").read_text() == "max"


@pytest.fixture
def real_root() -> Iterator[str]:
    layout = detect()
    if why_not := problem(layout):
        pytest.skip(why_not)
    root = f"/pktest-{secrets.token_hex(4)}"
    yield root
    open_driver(layout).delete(root)


@pytest.mark.root
async def test_limits_on_the_real_kernel(real_root: str) -> None:
    layout = detect()
    driver = open_driver(layout)
    daemons = f"{real_root}/daemons"
    await asyncio.to_thread(driver.create, daemons, CgroupResources())
    reserved = ReservedCgroup("system", daemons, LIMITS)
    limits = RootLimits(cpu=MilliCPU(1000), memory=Bytes(1 << 30), pids=5000)
    for root_limits, expected in ((limits, 1 << 30), (RootLimits(cpu=MilliCPU(1000)), -1)):
        config = replace(CONFIG, reserved=(reserved,), cgroup_root=real_root, root_limits=root_limits)
        started = open_manager(layout, config, VirtualClock())
        assert len(await started.levels.start()) == 2, started.levels.problem
        assert (await asyncio.to_thread(driver.limits, f"{real_root}/kubepods")).memory_max == expected
    found = await asyncio.to_thread(driver.limits, daemons)
    assert found.memory_max == 1 << 30
    if layout.mode is not Mode.V2:
        assert found.cpu_shares == 512
