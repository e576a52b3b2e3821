"""The resource manager on a fake cgroup file system, in virtual time; and once on the real kernel."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import (
    NameStyle,
    PodCgroupConfig,
    PodCgroupManager,
    PolicyConfig,
    RootLimits,
    node_policy,
    open_manager,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.cgroups import UNLIMITED, CgroupResources, Layout, Mode, detect, open_driver, problem
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.actuate.cgroups.kit import (
    BEST_EFFORT,
    BURSTABLE,
    CONFIG,
    GUARANTEED,
    POLICY,
    SignallingFiles,
    pod,
)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (BURSTABLE, "/kubepods/burstable/podu-burst"),
        (GUARANTEED, "/kubepods/podu-guar"),
        (BEST_EFFORT, "/kubepods/besteffort/podu-best"),
    ],
)
async def test_a_pod_gets_its_cgroup(manager: PodCgroupManager, files: SignallingFiles, value: Pod, path: str) -> None:
    await manager.levels.start()
    assert await manager.ensure_pod(value) == path
    assert manager.pod_parent(value) == manager.own_cgroup(value) == path
    assert (files.root / path.lstrip("/")).is_dir()
    assert await manager.list_pods() == {value.metadata.uid}
    await manager.remove_pod(PodUID(value.metadata.uid))
    assert not (files.root / path.lstrip("/")).exists()
    assert await manager.list_pods() == set()
    await manager.remove_pod(PodUID(value.metadata.uid))


async def test_ensure_writes_only_when_something_changed(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.levels.start()
    await manager.ensure_pod(GUARANTEED)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)
    files.writes.clear()
    await manager.ensure_pod(GUARANTEED)
    assert files.writes == []
    bigger = pod("u-guar", {"cpu": "1", "memory": "2Mi"}, {"cpu": "1", "memory": "2Mi"})
    await manager.ensure_pod(bigger)
    assert files.content("kubepods/podu-guar/memory.max") == str(2 << 20)


async def test_ensure_does_not_write_during_a_resize(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.levels.start()
    await manager.ensure_pod(GUARANTEED, resizing=True)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)  # there was none
    bigger = pod("u-guar", {"cpu": "2", "memory": "2Mi"}, {"cpu": "2", "memory": "2Mi"})
    now, wanted = await manager.pod_limits(GUARANTEED), manager.wanted_limits(bigger)
    assert now is not None and (now.memory_max, wanted.memory_max) == (1 << 20, 2 << 20)
    assert (now.cpu_quota_us, wanted.cpu_quota_us) == (100_000, 200_000)
    await manager.ensure_pod(bigger, resizing=True)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)
    await manager.set_pod_limits(bigger, CgroupResources(memory_max=wanted.memory_max))
    assert await manager.pod_limits(bigger) == replace(now, memory_max=Bytes(2 << 20))
    await manager.ensure_pod(bigger)
    assert files.content("kubepods/podu-guar/cpu.max") == "200000 100000"
    files.writes.clear()
    manager.resized(bigger)
    await manager.ensure_pod(bigger)
    assert files.writes == []
    assert await manager.pod_memory(bigger) == 0


async def test_missing_limits_are_unlimited(manager: PodCgroupManager) -> None:
    await manager.levels.start()
    await manager.ensure_pod(BEST_EFFORT)
    now, wanted = await manager.pod_limits(BEST_EFFORT), manager.wanted_limits(BEST_EFFORT)
    assert now is not None
    for limits in (now, wanted):
        assert (limits.memory_max, limits.cpu_quota_us) == (UNLIMITED, UNLIMITED)


async def test_removed_cgroup_is_created_again(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.levels.start()
    await manager.ensure_pod(GUARANTEED)
    files.remove(files.root / "kubepods/podu-guar")
    await manager.ensure_pod(GUARANTEED)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)


async def test_pods_of_a_former_run_are_found_and_removed(files: SignallingFiles, clock: VirtualClock) -> None:
    first = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)
    await first.levels.start()
    for value in (BURSTABLE, GUARANTEED, BEST_EFFORT):
        await first.ensure_pod(value)
    second = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)
    await second.levels.start()
    assert await second.list_pods() == {"u-burst", "u-guar", "u-best"}
    await second.remove_pod(PodUID("u-burst"))
    assert await second.list_pods() == {"u-guar", "u-best"}


async def test_pods_run_without_cgroups(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    manager = open_manager(Layout(Mode.NONE), CONFIG, clock)
    await manager.levels.start()
    assert "no cgroup file system" in (manager.levels.problem or "")
    assert caplog.text.count("pods get no cgroup of their own") == 1
    assert await manager.ensure_pod(BURSTABLE) == ""
    assert await manager.list_pods() == set()
    await manager.remove_pod(PodUID("u-burst"))
    assert manager.container_resources(BURSTABLE, BURSTABLE.spec.containers[0]).cpu_shares == 512
    assert manager.pod_resources(BURSTABLE)[0].cpu_shares == 512


async def test_a_refusal_at_start_degrades(manager: PodCgroupManager, files: SignallingFiles) -> None:
    files.refuse = Permanent("read-only file system")
    await manager.levels.start()
    assert manager.levels.problem == "read-only file system"
    assert await manager.ensure_pod(BURSTABLE) == ""


async def test_systemd_needs_systemd_and_version_2(clock: VirtualClock) -> None:
    systemd = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), style=NameStyle.SYSTEMD)
    manager = open_manager(Layout(Mode.HYBRID), systemd, clock)
    await manager.levels.start()
    assert "needs cgroup version 2" in (manager.levels.problem or "")
    assert await manager.ensure_pod(BURSTABLE) == ""


async def test_pod_of_the_systemd_driver_gets_a_slice(files: SignallingFiles, clock: VirtualClock) -> None:
    systemd = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), style=NameStyle.SYSTEMD)
    manager = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=systemd, clock=clock)
    await manager.levels.start()
    assert manager.levels.problem is None
    parent = "kubepods-burstable-podu_burst.slice"
    assert await manager.ensure_pod(BURSTABLE) == manager.pod_parent(BURSTABLE) == parent
    assert manager.own_cgroup(BURSTABLE) == f"/kubepods.slice/kubepods-burstable.slice/{parent}"
    assert await manager.list_pods() == {PodUID("u-burst")}
    await manager.remove_pod(PodUID("u-burst"))
    assert await manager.list_pods() == set()


async def test_pods_without_qos_levels_have_no_cgroup(files: SignallingFiles, clock: VirtualClock) -> None:
    flat = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), per_qos=False)
    manager = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=flat, clock=clock)
    await manager.levels.start()
    assert manager.levels.problem is None
    assert await manager.ensure_pod(BURSTABLE) == ""
    assert files.subdirectories(files.root) == []


async def test_a_hostile_uid_is_refused(manager: PodCgroupManager) -> None:
    await manager.levels.start()
    with pytest.raises(Invalid):
        await manager.ensure_pod(pod("../../etc"))


@pytest.fixture
def real_root() -> Iterator[str]:
    layout = detect()
    if why_not := problem(layout):
        pytest.skip(why_not)
    root = f"/pktest-{secrets.token_hex(4)}"
    yield root
    open_driver(layout).delete(root)


@pytest.mark.root
async def test_pod_cgroups_are_created_and_removed_on_the_real_kernel(real_root: str, clock: VirtualClock) -> None:
    layout = detect()
    policy = await asyncio.to_thread(node_policy, layout, PolicyConfig(pod_pids_limit=100))
    limits = RootLimits(cpu=MilliCPU(2000), memory=Bytes(policy.memory_capacity // 2))
    config = PodCgroupConfig(policy=policy, root_limits=limits, cgroup_root=real_root)
    manager = open_manager(layout, config, clock)
    await manager.levels.start()
    assert manager.levels.problem is None
    for value in (BURSTABLE, GUARANTEED, BEST_EFFORT):
        parent = await manager.ensure_pod(value)
        assert parent.startswith(f"{real_root}/kubepods")
        assert await asyncio.to_thread(open_driver(layout).exists, parent)
    assert await manager.list_pods() == {"u-burst", "u-guar", "u-best"}
    for uid in await manager.list_pods():
        await manager.remove_pod(uid)
    assert await manager.list_pods() == set()
