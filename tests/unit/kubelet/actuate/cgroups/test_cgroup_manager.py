"""The resource manager on a fake cgroup file system, in virtual time; and once on the real kernel."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import (
    NameStyle,
    NodePolicy,
    PodCgroupConfig,
    PodCgroupManager,
    PolicyConfig,
    RootLimits,
    node_policy,
    open_manager,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux import system
from pykubelet.linux.cgroups import UNLIMITED, CgroupResources, Layout, Mode, detect, open_driver, problem
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.models.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import Quantity
from pykubelet.testing.cgroups import FakeCgroupFiles
from pykubelet.testing.clock import VirtualClock

POLICY = NodePolicy(memory_capacity=Bytes(8 << 30))
CONFIG = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1500), memory=Bytes(7 << 30), pids=1000))


def pod(uid: str, requests: dict[str, Quantity] | None = None, limits: dict[str, Quantity] | None = None) -> Pod:
    resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="ns", uid=uid),
        spec=PodSpec(containers=(Container(name="c", resources=resources),)),
    )


BURSTABLE = pod("u-burst", {"cpu": "500m"})
GUARANTEED = pod("u-guar", {"cpu": "1", "memory": "1Mi"}, {"cpu": "1", "memory": "1Mi"})
BEST_EFFORT = pod("u-best")


class SignallingFiles(FakeCgroupFiles):
    """Lets a test wait for a write that a thread does."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.written = asyncio.Event()
        self.refused = asyncio.Event()
        self.refuse: Exception | None = None

    def write(self, path: Path, value: str) -> None:
        refuse = self.refuse  # the test may change it meanwhile
        if refuse is not None and "burstable" in str(path):
            if self.loop is not None:
                self.loop.call_soon_threadsafe(self.refused.set)
            raise refuse
        super().write(path, value)
        if self.loop is not None and path.name == "cpu.weight" and path.parent.name == "besteffort":
            self.loop.call_soon_threadsafe(self.written.set)

    def content(self, path: str) -> str:
        return (self.root / path).read_text()


@pytest.fixture
def files(tmp_path: Path) -> SignallingFiles:
    return SignallingFiles(tmp_path / "cgroup")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def manager(files: SignallingFiles, clock: VirtualClock) -> PodCgroupManager:
    return PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)


async def test_start_makes_the_levels(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.start()
    assert manager.problem is None
    assert files.content("kubepods/memory.max") == str(7 << 30)
    assert files.content("kubepods/pids.max") == "1000"
    assert files.content("kubepods/cpu.weight") == "59"
    assert files.content("kubepods/burstable/cpu.weight") == "1"
    assert files.content("kubepods/besteffort/cpu.weight") == "1"
    await manager.start()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (BURSTABLE, "/kubepods/burstable/podu-burst"),
        (GUARANTEED, "/kubepods/podu-guar"),
        (BEST_EFFORT, "/kubepods/besteffort/podu-best"),
    ],
)
async def test_a_pod_gets_its_cgroup(manager: PodCgroupManager, files: SignallingFiles, value: Pod, path: str) -> None:
    await manager.start()
    assert await manager.ensure_pod(value) == path
    assert manager.pod_parent(value) == manager.cgroup_path(value) == path
    assert (files.root / path.lstrip("/")).is_dir()
    assert await manager.list_pods() == {value.metadata.uid}
    await manager.remove_pod(PodUID(value.metadata.uid))
    assert not (files.root / path.lstrip("/")).exists()
    assert await manager.list_pods() == set()
    await manager.remove_pod(PodUID(value.metadata.uid))


async def test_ensure_writes_only_when_something_changed(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.start()
    await manager.ensure_pod(GUARANTEED)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)
    files.writes.clear()
    await manager.ensure_pod(GUARANTEED)
    assert files.writes == []
    bigger = pod("u-guar", {"cpu": "1", "memory": "2Mi"}, {"cpu": "1", "memory": "2Mi"})
    await manager.ensure_pod(bigger)
    assert files.content("kubepods/podu-guar/memory.max") == str(2 << 20)


async def test_ensure_does_not_write_during_a_resize(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.start()
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
    await manager.start()
    await manager.ensure_pod(BEST_EFFORT)
    now, wanted = await manager.pod_limits(BEST_EFFORT), manager.wanted_limits(BEST_EFFORT)
    assert now is not None
    for limits in (now, wanted):
        assert (limits.memory_max, limits.cpu_quota_us) == (UNLIMITED, UNLIMITED)


async def test_removed_cgroup_is_created_again(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.start()
    await manager.ensure_pod(GUARANTEED)
    files.remove(files.root / "kubepods/podu-guar")
    await manager.ensure_pod(GUARANTEED)
    assert files.content("kubepods/podu-guar/memory.max") == str(1 << 20)


async def test_pods_of_a_former_run_are_found_and_removed(files: SignallingFiles, clock: VirtualClock) -> None:
    first = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)
    await first.start()
    for value in (BURSTABLE, GUARANTEED, BEST_EFFORT):
        await first.ensure_pod(value)
    second = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)
    await second.start()
    assert await second.list_pods() == {"u-burst", "u-guar", "u-best"}
    await second.remove_pod(PodUID("u-burst"))
    assert await second.list_pods() == {"u-guar", "u-best"}


@asynccontextmanager
async def running(manager: PodCgroupManager, files: SignallingFiles) -> AsyncIterator[None]:
    files.loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        yield
        task.cancel()


async def burstable_weight(files: SignallingFiles, clock: VirtualClock, weight: str) -> None:
    """Let time pass until the class has this weight; the writing thread is not on the virtual clock."""
    while files.content("kubepods/burstable/cpu.weight") != weight:
        await clock.advance(1)


async def test_the_weight_of_the_class_follows_its_pods(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    await manager.start()
    async with running(manager, files), asyncio.timeout(10):
        await manager.ensure_pod(BURSTABLE)
        await manager.ensure_pod(pod("u-2", {"cpu": "1500m"}))
        await burstable_weight(files, clock, "79")
        await manager.remove_pod(PodUID("u-2"))
        await burstable_weight(files, clock, "20")


async def test_nothing_is_written_while_nothing_changes(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    await manager.start()
    files.writes.clear()
    async with running(manager, files), asyncio.timeout(10):
        await clock.advance(59)
        assert files.writes == []
        await clock.advance(2)
        await files.written.wait()


async def test_a_refused_write_is_tried_again(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await manager.start()
    async with running(manager, files), asyncio.timeout(10):
        files.refuse = Transient("busy")
        manager.resized(pod("u-1", {"cpu": "1"}))
        await clock.advance(1)
        await files.refused.wait()
        files.refuse = None
        await burstable_weight(files, clock, "39")
    assert [getattr(r, "loop", "") for r in caplog.records if r.levelname == "WARNING"] == ["cgroups.levels"]


async def test_pods_run_without_cgroups(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    manager = open_manager(Layout(Mode.NONE), CONFIG, clock)
    await manager.start()
    assert "no cgroup file system" in (manager.problem or "")
    assert caplog.text.count("pods get no cgroup of their own") == 1
    assert await manager.ensure_pod(BURSTABLE) == ""
    assert await manager.list_pods() == set()
    await manager.remove_pod(PodUID("u-burst"))
    assert manager.container_resources(BURSTABLE, BURSTABLE.spec.containers[0]).cpu_shares == 512
    assert manager.pod_resources(BURSTABLE)[0].cpu_shares == 512


async def test_transient_start_error_is_retried(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    files.refuse, files.loop = Transient("systemd does not answer"), asyncio.get_running_loop()
    await manager.start()
    assert manager.problem is None
    assert await manager.ensure_pod(BEST_EFFORT) == "/kubepods/besteffort/podu-best"
    files.refuse = None
    files.written.clear()
    task = asyncio.create_task(manager.run())
    async with asyncio.timeout(10):
        await clock.advance(1)
        await files.written.wait()
    assert files.content("kubepods/burstable/cpu.weight") == "1"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_refusal_at_start_degrades(manager: PodCgroupManager, files: SignallingFiles) -> None:
    files.refuse = Permanent("read-only file system")
    await manager.start()
    assert manager.problem == "read-only file system"
    assert await manager.ensure_pod(BURSTABLE) == ""


async def test_systemd_needs_systemd_and_version_2(clock: VirtualClock) -> None:
    systemd = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), style=NameStyle.SYSTEMD)
    manager = open_manager(Layout(Mode.HYBRID), systemd, clock)
    await manager.start()
    assert "needs cgroup version 2" in (manager.problem or "")
    assert await manager.ensure_pod(BURSTABLE) == ""


async def test_slices(files: SignallingFiles, clock: VirtualClock) -> None:
    systemd = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), style=NameStyle.SYSTEMD)
    manager = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=systemd, clock=clock)
    await manager.start()
    assert manager.problem is None
    parent = "kubepods-burstable-podu_burst.slice"
    assert await manager.ensure_pod(BURSTABLE) == manager.pod_parent(BURSTABLE) == parent
    assert manager.cgroup_path(BURSTABLE) == f"/kubepods.slice/kubepods-burstable.slice/{parent}"
    assert await manager.list_pods() == {PodUID("u-burst")}
    await manager.remove_pod(PodUID("u-burst"))
    assert await manager.list_pods() == set()


async def test_no_qos_levels(files: SignallingFiles, clock: VirtualClock) -> None:
    flat = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1)), per_qos=False)
    manager = PodCgroupManager(cgroups=CgroupV2(files.root, files), config=flat, clock=clock)
    await manager.start()
    assert manager.problem is None
    assert await manager.ensure_pod(BURSTABLE) == ""
    assert files.subdirectories(files.root) == []


async def test_a_hostile_uid_is_refused(manager: PodCgroupManager) -> None:
    await manager.start()
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


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 8 GiB of memory and 4 of swap."""
    memory = system.MemInfo(Bytes(8 << 30), Bytes(6 << 30), Bytes(6 << 30), Bytes(4 << 30), Bytes(4 << 30))
    monkeypatch.setattr(system, "meminfo", lambda: memory)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize(
    ("config", "swap", "single"),
    [
        (PolicyConfig(), 0, False),
        (PolicyConfig(limited_swap=True), 4 << 30, False),
        (PolicyConfig(single_process_oom_kill=True), 0, True),
        (PolicyConfig(single_process_oom_kill=False), 0, False),
        (PolicyConfig(refuse_v1=True), 0, False),
    ],
)
def test_the_policy_follows_the_configuration(config: PolicyConfig, swap: int, single: bool) -> None:
    policy = node_policy(Layout(Mode.V2, Path("/none")), config)
    assert (policy.swap, policy.single_process_oom_kill) == (swap, single)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize(
    ("config", "mode", "message"),
    [
        (PolicyConfig(limited_swap=True), Mode.V1, "LimitedSwap: cgroup v2 is required"),
        (PolicyConfig(single_process_oom_kill=False), Mode.V1, "singleProcessOOMKill: false: cgroup v2 is required"),
        (PolicyConfig(refuse_swap=True), Mode.V2, "failSwapOn: false"),
        (PolicyConfig(refuse_v1=True), Mode.V1, "configured to not run on a host using cgroup v1"),
        (PolicyConfig(refuse_v1=True), Mode.HYBRID, "configured to not run on a host using cgroup v1"),
    ],
)
def test_policies_that_the_machine_does_not_allow(config: PolicyConfig, mode: Mode, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        node_policy(Layout(mode, Path("/none")), config)


@pytest.mark.root
async def test_on_the_real_kernel(real_root: str, clock: VirtualClock) -> None:
    layout = detect()
    policy = await asyncio.to_thread(node_policy, layout, PolicyConfig(pod_pids_limit=100))
    limits = RootLimits(cpu=MilliCPU(2000), memory=Bytes(policy.memory_capacity // 2))
    config = PodCgroupConfig(policy=policy, root_limits=limits, cgroup_root=real_root)
    manager = open_manager(layout, config, clock)
    await manager.start()
    assert manager.problem is None
    for value in (BURSTABLE, GUARANTEED, BEST_EFFORT):
        parent = await manager.ensure_pod(value)
        assert parent.startswith(f"{real_root}/kubepods")
        assert await asyncio.to_thread(open_driver(layout).exists, parent)
    assert await manager.list_pods() == {"u-burst", "u-guar", "u-best"}
    for uid in await manager.list_pods():
        await manager.remove_pod(uid)
    assert await manager.list_pods() == set()
