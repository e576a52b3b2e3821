"""The whole of the statistics on made-up cgroup trees and a made-up runtime."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Transient
from pykubelet.kubelet.observe.stats import NodeUsage, StatsConfig, StatsDeps
from pykubelet.kubelet.observe.stats.snapshot import SnapshotReader
from pykubelet.kubelet.observe.stats.snapshot_types import PodSnapshot
from pykubelet.kubelet.types.resources.stats import PodStats, Summary
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.observe.stats.trees import STARTED, Tree, running_pod

POD = "/kubepods/poduid-web"


class FakeCri:
    """Knows writable layers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.asked = 0
        self.away = False
        self.cpu_ns: int | None = None

    async def list_container_stats(self, filter: pb.ContainerStatsFilter | None = None) -> list[pb.ContainerStats]:
        self.asked += 1
        if self.away:
            raise Transient("the runtime is not responding")
        stats = pb.ContainerStats(attributes=pb.ContainerAttributes(id="id-app"), writable_layer=self._usage(5000, 7))
        if self.cpu_ns is not None:
            stats.cpu.usage_core_nano_seconds.value = self.cpu_ns
            stats.memory.working_set_bytes.value = 4096
        return [stats]

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        if self.away:
            raise Transient("the runtime is not responding")
        return pb.ImageFsInfoResponse(image_filesystems=[self._usage(9000, 9)])

    def _usage(self, used: int, inodes: int) -> pb.FilesystemUsage:
        return pb.FilesystemUsage(
            fs_id=pb.FilesystemIdentifier(mountpoint=str(self._directory)),
            used_bytes=pb.UInt64Value(value=used),
            inodes_used=pb.UInt64Value(value=inodes),
        )


class Node:
    """A made-up node with one pod, ``web``."""

    def __init__(self, base: Path, version: int) -> None:
        (base / "cgroup").mkdir()
        self.tree = Tree(base / "cgroup", version)
        self.root = base / "root"
        self.root.mkdir()
        self.logs = base / "logs"
        self.cri = FakeCri(self.root)
        self.clock = VirtualClock()
        self.pods: list[Pod] = [running_pod("web", "app")]
        self.cgroup: Callable[[Pod], str | None] = lambda pod: f"/kubepods/pod{pod.metadata.uid}"
        self.tree.set("/", cpu_ns=50_000_000_000)
        self.tree.set("/kubepods/burstable", cpu_ns=1)
        self.use(0)
        config = StatsConfig(
            "node-1",
            self.tree.layout,
            self.root,
            self.logs,
            ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort"),
        )
        deps = StatsDeps(
            pods=lambda: self.pods,
            pod_cgroup=lambda pod: self.cgroup(pod),
            cri=self.cri,
            image_cri=self.cri,
            clock=self.clock,
        )
        self.usage = NodeUsage(config, deps)

    def use(self, cpu_ns: int) -> None:
        """The pod has used so much."""
        for path in ("/kubepods", POD, f"{POD}/id-app"):
            self.tree.set(path, cpu_ns=cpu_ns, memory=10_000, inactive=4000, limit=20_000)

    async def summary(self, *, only_cpu_and_memory: bool = False, max_age: float | None = None) -> Summary:
        """Ask, and let the moment pass that a first reading takes."""
        work = self.usage.summary(only_cpu_and_memory=only_cpu_and_memory, max_age=max_age)
        task = asyncio.get_running_loop().create_task(work)
        async with self.running():
            while not task.done():
                if self.clock.sleepers:
                    await self.clock.advance(0.25)
                await asyncio.wait([task], timeout=0.005)
        return await task

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The walker of volumes runs within the block."""
        task = asyncio.get_running_loop().create_task(self.usage.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture(params=[1, 2])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    return Node(tmp_path, request.param)


def only(summary: Summary) -> PodStats:
    (pod,) = summary.pods
    return pod


@pytest.mark.parametrize("step", ["cgroup", "read"])
async def test_pod_that_cannot_be_measured_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    node = Node(tmp_path, 2)
    node.pods.append(running_pod("bad", "app"))
    usual, read = node.cgroup, SnapshotReader._pod

    def cgroup(pod: Pod) -> str | None:
        if pod.metadata.name == "bad":
            raise ValueError("no error that anyone foresaw")
        return usual(pod)

    def of_pod(self: SnapshotReader, pod: Pod, *given: Any) -> PodSnapshot | None:
        if pod.metadata.name == "bad":
            raise ValueError("no error that anyone foresaw")
        return read(self, pod, *given)

    if step == "cgroup":
        node.cgroup = cgroup
    else:
        monkeypatch.setattr(SnapshotReader, "_pod", of_pod)
    assert [pod.pod_ref.name for pod in (await node.summary()).pods] == ["web"]
    shown = {(each.namespace, each.pod) for each in (await node.usage.readings()).readings if each.pod}
    assert shown == {("ns", "web")}


async def test_cpu_and_memory_of_a_pod_and_its_containers(node: Node) -> None:
    await node.summary(only_cpu_and_memory=True)
    await node.clock.advance(20)
    node.use(5_000_000_000)
    pod = only(await node.summary(only_cpu_and_memory=True))
    assert (pod.pod_ref.namespace, pod.pod_ref.name, pod.pod_ref.uid) == ("ns", "web", "uid-web")
    for usage in (pod, pod.containers[0]):
        assert usage.cpu is not None and usage.memory is not None
        assert usage.cpu.usage_core_nano_seconds == 5_000_000_000
        assert usage.cpu.usage_nano_cores == 250_000_000
        assert usage.memory.working_set_bytes == 6000
        assert usage.memory.available_bytes == 14_000
    assert pod.containers[0].name == "app"
    assert pod.containers[0].start_time is not None and pod.containers[0].start_time.timestamp() == STARTED
    assert (pod.network, pod.ephemeral_storage, pod.containers[0].rootfs) == (None, None, None)
    assert node.cri.asked == 0


async def test_first_summary_has_a_cpu_usage(node: Node) -> None:
    pod = only(await node.summary(only_cpu_and_memory=True))
    assert pod.cpu is not None and pod.cpu.usage_nano_cores == 0


async def test_summary_without_rates_does_not_wait_for_a_second_reading(node: Node) -> None:
    async with node.running():
        pod = only(await node.usage.summary(rates=False))  # the clock stands still
    assert pod.cpu is not None and pod.cpu.usage_core_nano_seconds == 0
    assert pod.ephemeral_storage is not None


@pytest.mark.parametrize(
    ("max_age", "passed", "is_new"), [(2, 1.9, False), (2, 2.0, True), (0, 0.9, False), (0, 1.0, True), (60, 10, True)]
)
async def test_client_may_ask_for_a_newer_reading(node: Node, max_age: float, passed: float, is_new: bool) -> None:
    await node.summary(only_cpu_and_memory=True)
    node.use(9_000_000_000)
    await node.clock.advance(passed)
    pod = only(await node.summary(only_cpu_and_memory=True, max_age=max_age))
    assert pod.cpu is not None and (pod.cpu.usage_core_nano_seconds == 9_000_000_000) == is_new


async def test_reading_is_reused_for_ten_seconds(node: Node) -> None:
    await node.summary()
    node.use(9_000_000_000)
    await node.clock.advance(9)
    pod = only(await node.summary())
    assert pod.cpu is not None and pod.cpu.usage_core_nano_seconds == 0
    await node.clock.advance(2)
    pod = only(await node.summary())
    assert pod.cpu is not None and pod.cpu.usage_core_nano_seconds == 9_000_000_000


async def test_summary_has_the_usage_of_node_and_daemons(node: Node) -> None:
    found = (await node.summary()).node
    assert found.node_name == "node-1"
    assert found.cpu is not None and found.cpu.usage_core_nano_seconds == 50_000_000_000
    assert found.memory is not None and (found.memory.working_set_bytes or 0) > 0
    assert found.fs is not None and (found.fs.capacity_bytes or 0) > 0
    assert found.runtime is not None and found.runtime.image_fs is not None
    assert found.runtime.image_fs.used_bytes == 9000
    assert found.rlimit is not None and (found.rlimit.max_pid or 0) > 0
    names = {container.name: container for container in found.system_containers}
    assert names.keys() == {"kubelet", "pods"}
    assert names["kubelet"].memory is not None and (names["kubelet"].memory.rss_bytes or 0) > 1 << 20
    assert (names["kubelet"].memory.page_faults or 0) > 1000
    assert names["pods"].memory is not None and names["pods"].memory.available_bytes == 20_000 - 6000


async def test_pods_without_a_limit_may_use_the_machine(node: Node) -> None:
    node.tree.set("/kubepods", cpu_ns=1, memory=10_000, inactive=4000)
    found = (await node.summary()).node
    [pods] = [container.memory for container in found.system_containers if container.name == "pods"]
    assert pods is not None and found.memory is not None
    machine = (found.memory.available_bytes or 0) + (found.memory.working_set_bytes or 0)
    assert pods.available_bytes == machine - 6000


async def test_disk_use_of_a_pod_counts_volumes_logs_and_layers(node: Node) -> None:
    volumes = node.root / "pods" / "uid-web" / "volumes"
    for plugin, name in (("kubernetes.io~empty-dir", "data"), ("kubernetes.io~secret", "key")):
        (volumes / plugin / name).mkdir(parents=True)
    (volumes / "kubernetes.io~empty-dir" / "data" / "file").write_bytes(b"x" * 100_000)
    (volumes / "kubernetes.io~empty-dir" / "unknown").mkdir()
    (node.root / "pods" / "uid-web" / "etc-hosts").write_bytes(b"x" * 5000)
    (node.logs / "ns_web_uid-web" / "app").mkdir(parents=True)
    (node.logs / "ns_web_uid-web" / "app" / "0.log").write_bytes(b"x" * 20_000)
    data = core.Volume(name="data", empty_dir=core.EmptyDirVolumeSource())
    key = core.Volume(name="key", secret=core.SecretVolumeSource(secret_name="key"))
    node.pods = [running_pod("web", "app", volumes=(data, key))]
    pod = only(await node.summary())
    assert [volume.name for volume in pod.volume] == ["data", "key"]
    assert 100_000 <= (pod.volume[0].used_bytes or 0) <= 120_000
    app = pod.containers[0]
    assert app.rootfs is not None and (app.rootfs.used_bytes, app.rootfs.inodes_used) == (5000, 7)
    assert app.logs is not None and 20_000 <= (app.logs.used_bytes or 0) <= 32_000
    own = 5000 + (app.logs.used_bytes or 0) + (pod.volume[0].used_bytes or 0)
    assert pod.ephemeral_storage is not None
    assert own + 4096 <= (pod.ephemeral_storage.used_bytes or 0) <= own + 16_384
    assert pod.ephemeral_storage.capacity_bytes == app.rootfs.capacity_bytes


async def test_wait_for_disk_usage_is_bounded(node: Node) -> None:
    """Without a running walk, the figures come after two seconds, without volumes."""
    node.pods = [running_pod("web", "app", volumes=(core.Volume(name="d", empty_dir=core.EmptyDirVolumeSource()),))]
    await node.summary(only_cpu_and_memory=True)
    async with asyncio.timeout(10):
        assert only(await node.usage.summary()).volume == ()


async def test_count_of_files_that_takes_long_is_waited_for_by_all_at_the_same_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.kubelet.observe.stats.volume_usage._WAIT", 0.3)
    await node.summary(only_cpu_and_memory=True)
    async with asyncio.timeout(6):
        found = await asyncio.gather(*(node.usage.summary() for _ in range(40)), node.usage.readings())
    assert len(found) == 41


async def test_summary_without_the_runtime_has_the_other_figures(node: Node) -> None:
    node.cri.away = True
    found = await node.summary()
    assert only(found).cpu is not None
    assert only(found).containers[0].rootfs is None
    assert found.node.runtime is not None and found.node.runtime.image_fs is None


async def test_pods_without_a_cgroup_are_read_from_the_runtime(node: Node) -> None:
    node.cgroup = lambda pod: None
    node.cri.cpu_ns = 1_000_000_000
    await node.summary(only_cpu_and_memory=True)
    await node.clock.advance(10)
    node.cri.cpu_ns = 2_000_000_000
    app = only(await node.summary(only_cpu_and_memory=True)).containers[0]
    assert app.cpu is not None and app.cpu.usage_nano_cores == 100_000_000
    assert app.memory is not None and app.memory.working_set_bytes == 4096


async def test_a_pod_of_which_nothing_runs_is_left_out(node: Node) -> None:
    ended = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=0))
    status = core.ContainerStatus(name="app", ready=False, restart_count=0, container_id="test://x", state=ended)
    node.pods = [Pod(metadata=node.pods[0].metadata, status=core.PodStatus(container_statuses=(status,)))]
    assert (await node.summary()).pods == ()


async def test_scrape_has_a_row_for_each_cgroup(node: Node) -> None:
    node.tree.procs(f"{POD}/id-app", os.getpid())
    found = await node.usage.readings()
    rows = {reading.usage.path: reading for reading in found.readings}
    assert list(rows) == ["/", "/kubepods", "/kubepods/burstable", POD, f"{POD}/id-app"]
    app = rows[f"{POD}/id-app"]
    assert (app.namespace, app.pod, app.container, app.container_id, app.image) == (
        *("ns", "web", "app", "id-app", "busybox:1"),
    )
    assert app.started == STARTED
    assert [(f.used, f.inodes, f.disk) for f in app.filesystems] == [(5000, None, None)]
    counted = {f"/dev/{line.split()[2]}" for line in Path("/proc/diskstats").read_text().splitlines()}
    assert [f.disk is not None for f in rows["/"].filesystems] == [f.device in counted for f in rows["/"].filesystems]
    assert app.usage.processes is not None and app.usage.processes.processes == 1
    assert app.usage.processes.file_descriptors > 2
    assert app.usage.io[0].device == "8:99"
    assert (rows[POD].container, rows[POD].pod) == ("", "web")
    assert found.machine.cores >= 1 and found.machine.memory > 0


async def test_a_light_scrape_does_not_ask_the_runtime(node: Node) -> None:
    found = await node.usage.readings(full=False)
    assert len(found.readings) == 5
    assert node.cri.asked == 0
    assert all(reading.usage.processes is None for reading in found.readings)


async def test_concurrent_requests_share_one_reading(node: Node) -> None:
    await asyncio.gather(*(node.usage.readings() for _ in range(10)))
    assert node.cri.asked == 1


async def test_network_counters_are_those_of_another_namespace_than_ours(node: Node) -> None:
    """Processes of this one share our network: a pod with them has no figures of its own."""
    node.tree.procs(f"{POD}/id-app", os.getpid())
    assert only(await node.summary()).network is None


def test_the_clock_is_given(tmp_path: Path) -> None:
    node = Node(tmp_path, 2)
    config = StatsConfig("n", node.tree.layout, node.root, node.logs, ("/kubepods",), volume_period=0)
    usage = NodeUsage(
        config,
        StatsDeps(pods=lambda: (), pod_cgroup=lambda pod: None, cri=node.cri, image_cri=node.cri, clock=SystemClock()),
    )
    assert asyncio.run(usage.summary(only_cpu_and_memory=True)).pods == ()
