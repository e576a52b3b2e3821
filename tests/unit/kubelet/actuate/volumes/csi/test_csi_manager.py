"""Staging and publishing with a fake driver over real gRPC; without mounts, so that no privileges are needed."""

import asyncio
import errno
import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import asyncinotify
import grpc
import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Conflict, NotFound, Transient, Unsupported
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.volumes.csi import (
    CsiConfig,
    CsiDeps,
    CsiEvents,
    CsiLayout,
    CsiVolumes,
    DriverRegistry,
    csi_layout,
    csi_manager,
)
from pykubelet.kubelet.actuate.volumes.csi.csi_errors import CsiFailed, DriverMissing
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.storage import AttachLimitExceeded, DriverNodeInfo, VolumesInUse, VolumeSizes
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import PersistentVolume, Pod, Secret, Volume
from pykubelet.models.storage_v1 import CSIDriver, TokenRequest
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_csi import FakeDriver, Fault, serve
from pykubelet.testing.meter import RecordingMeter
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import until

NAME = "fake.csi"


def claimed(
    handle: str = "vol-1", name: str = "pv1", more: Mapping[str, object] | None = None, **spec: object
) -> Source:
    """The volume behind a claim."""
    csi = {"driver": NAME, "volumeHandle": handle, "fsType": "ext4", **(more or {})}
    fields = {"csi": csi, "accessModes": ["ReadWriteOnce"], **spec}
    pv = from_builtins({"metadata": {"name": name}, "spec": fields}, PersistentVolume)
    block = pv.spec.volume_mode == "Block"
    return Source(kind="csi", name=name, volume=Volume(name=name), pv=pv, claim="ns/claim", block=block)


VOLUME = claimed()
INLINE = Source(kind="csi", name="scratch", volume=from_builtins({"name": "scratch", "csi": {"driver": NAME}}, Volume))


@dataclass
class Objects:
    """The API server's part."""

    drivers: dict[str, CSIDriver] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)
    attached: asyncio.Event = field(default_factory=asyncio.Event)
    waited: list[str] = field(default_factory=list)
    attach_error: Transient | None = None
    metadata: dict[str, Mapping[str, str]] = field(default_factory=dict)
    touched: set[PodUID] = field(default_factory=set)

    async def driver(self, name: str) -> CSIDriver | None:
        return self.drivers.get(name)

    async def secret(self, namespace: str, name: str) -> Secret:
        if name not in self.secrets:
            raise NotFound(f'secrets "{name}" not found')
        return self.secrets[name]

    async def wait_attached(
        self, unique_name: str, attachment: str, limit: AbstractAsyncContextManager[object]
    ) -> None:
        self.waited.append(unique_name)
        if self.attach_error is not None:
            raise self.attach_error
        async with limit:
            await self.attached.wait()

    async def attachment_metadata(self, name: str) -> Mapping[str, str]:
        return self.metadata.get(name, {})

    def touch(self, uids: frozenset[PodUID]) -> None:
        self.touched |= uids

    async def driver_tokens(self, pod: Pod, requests: tuple[TokenRequest, ...]) -> str:
        return json.dumps({request.audience: pod.metadata.name for request in requests})


@dataclass
class Reports:
    """The CSINode object's part."""

    there: dict[str, DriverNodeInfo] = field(default_factory=dict)

    def installed(self, driver: str, info: DriverNodeInfo) -> None:
        self.there[driver] = info

    def removed(self, driver: str) -> None:
        del self.there[driver]


class World:
    """One agent's part of CSI, over a directory that outlives it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dirs = PodDirs.at(root)
        self.layout = CsiLayout(self.dirs)
        self.clock = VirtualClock()
        self.meter = RecordingMeter()
        self.objects = Objects()
        self.objects.drivers[NAME] = driver_object(attachRequired=False)
        self.reports = Reports()
        self.news = asyncio.Event()
        self.reached: list[str] = []
        self.events = CsiEvents()
        self.events.installed.subscribe(self.reports.installed)
        self.events.removed.subscribe(self.reports.removed)
        self.events.limit_reached.subscribe(self.reached.append)
        self.registry = DriverRegistry(
            directory=self.layout.registry, clock=SystemClock(), timeout=5.0, events=self.events
        )
        self.deps = CsiDeps(
            layout=self.layout,
            drivers=self.registry,
            objects=self.objects,
            blocking=BlockingJobs(10.0),
            node="node-a",
            telemetry=telemetry(self.clock, self.meter),
            events=self.events,
        )
        self.csi = CsiVolumes(self.deps, CsiConfig())
        self.events.registered.subscribe(self._registered)

    def _registered(self, name: str) -> None:
        self.news.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.registry.run()), group.create_task(self.csi.run())]
            try:
                async with asyncio.timeout(30):
                    yield
            finally:
                for task in tasks:
                    task.cancel()

    def pod(self, uid: str, **security: object) -> Pod:
        fields = {"securityContext": security} if security else {}
        made = from_builtins(
            {"metadata": {"name": uid, "namespace": "ns", "uid": uid}, "spec": {"containers": [], **fields}}, Pod
        )
        self.dirs.prepare(ref_of(made).uid)
        return made

    def staged_at(self) -> Path:
        assert VOLUME.pv is not None
        return self.layout.stage(csi_rules.persistent_volume(VOLUME.pv, read_only=False))


def raising(error: Exception) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        raise error

    return call


def driver_object(**spec: object) -> CSIDriver:
    modes = {"volumeLifecycleModes": ["Persistent", "Ephemeral"]}
    return from_builtins({"metadata": {"name": NAME}, "spec": {**modes, **spec}}, CSIDriver)


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(NAME, tmp_path / "data", mounting=False, topology={"zone": "z"}, max_volumes=3)


@asynccontextmanager
async def ready(root: Path, driver: FakeDriver) -> AsyncIterator[World]:
    """A world whose driver is registered."""
    world = World(root)
    async with serve(driver, root), world.running():
        await world.news.wait()
        yield world


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kubelet"


async def test_driver_registers_and_unregisters(root: Path, driver: FakeDriver) -> None:
    world = World(root)
    async with world.running():
        async with serve(driver, root):
            await until(lambda: driver.status)
            assert driver.status == [(True, "")]
            assert world.reports.there == {NAME: DriverNodeInfo("node-1", 3, {"zone": "z"})}
        await until(lambda: not world.reports.there)
        with pytest.raises(
            DriverMissing, match=r"driver name fake\.csi not found in the list of registered CSI drivers"
        ):
            world.registry.client(NAME)
        async with serve(driver, root):  # the driver runs again
            await until(lambda: len(driver.status) == 2)
            assert world.registry.names() == {NAME}


async def test_driver_registers_though_no_inotify_instance_is_left(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncinotify, "Inotify", exhausted)
    async with ready(root, driver) as world:
        assert NAME in world.reports.there


async def test_driver_without_node_info_is_retried(root: Path, driver: FakeDriver) -> None:
    driver.faults["NodeGetInfo"] = Fault(grpc.StatusCode.UNAVAILABLE, "starting")
    async with ready(root, driver):
        await until(lambda: len(driver.status) == 2)
        assert [taken for taken, _ in driver.status] == [False, True] and "starting" in driver.status[0][1]


async def test_volume_is_published_and_unpublished(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        pod = world.pod("u1")
        uid = ref_of(pod).uid
        await world.csi.set_up(pod, VOLUME)
        target = root / "pods/u1/volumes/kubernetes.io~csi/pv1/mount"
        assert world.csi.path(uid, VOLUME) == target and target.is_dir()
        (stage,) = driver.made("NodeStageVolume")
        (publish,) = driver.made("NodePublishVolume")
        assert stage["staging_target_path"] == publish["staging_target_path"] == str(world.staged_at())
        assert publish["target_path"] == str(target)
        assert publish["volume_capability"] == {
            "mount": {"fs_type": "ext4"},
            "access_mode": {"mode": "SINGLE_NODE_MULTI_WRITER"},
        }
        record = json.loads((target.parent / "vol_data.json").read_text())
        assert record["driverName"] == NAME and record["volumeHandle"] == "vol-1" and record["specVolID"] == "pv1"
        assert record["volumeLifecycleMode"] == "Persistent" and record["nodeName"] == "node-a"
        assert json.loads((world.staged_at().parent / "vol_data.json").read_text()) == {
            "driverName": NAME,
            "volumeHandle": "vol-1",
        }
        assert not world.csi.is_due(pod, VOLUME)
        await world.csi.tear_down(uid)
        assert [name for name, _ in driver.calls][-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
        assert not target.parent.exists() and not world.staged_at().parent.exists()
        await world.csi.tear_down(uid)  # again


async def test_a_driver_may_register_in_a_directory_below(
    tmp_path_factory: pytest.TempPathFactory, driver: FakeDriver
) -> None:
    root = tmp_path_factory.mktemp("k")  # paths of sockets have to be short
    world = World(root)
    driver.below = "vendor/deep"
    directory = root / "plugins_registry/vendor"
    async with world.running():
        for _ in range(2):
            async with serve(driver, root):
                (directory / ".hidden").mkdir()
                await until(lambda: world.registry.names() == {NAME})
                await until(lambda: len(world.registry.counts()) == 2)
            shutil.rmtree(directory)
            await until(lambda: not world.registry.names())


async def test_driver_goes_on_when_its_update_is_rolled_back(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, driver: FakeDriver
) -> None:
    """The new pod of the driver registers beside the old one, and ends again."""
    root = tmp_path_factory.mktemp("k")  # paths of sockets have to be short
    updated = FakeDriver(NAME, tmp_path / "data", mounting=False, node_id="node-2", below="new")
    async with ready(root, driver) as world:
        async with serve(updated, root):
            await until(lambda: world.reports.there[NAME].node_id == "node-2")
            await until(lambda: updated.status)
        await until(lambda: world.reports.there[NAME].node_id == "node-1")
        await world.csi.set_up(world.pod("u1"), VOLUME)
        assert driver.made("NodePublishVolume") and not updated.made("NodePublishVolume")


async def test_a_volume_is_unstaged_after_its_last_pod(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        first, second = world.pod("u1"), world.pod("u2")
        await asyncio.gather(world.csi.set_up(first, VOLUME), world.csi.set_up(second, VOLUME))
        await world.csi.tear_down(ref_of(first).uid)
        assert not driver.made("NodeUnstageVolume")
        await world.csi.tear_down(ref_of(second).uid)
        assert len(driver.made("NodeUnstageVolume")) == 1
    plugin = "kubernetes.io/csi:fake.csi"
    unmounted = f"volume_unmount {plugin} done"
    assert world.meter.lines == [unmounted, unmounted, f"unmount_device {plugin} done"]


async def test_volumes_of_a_killed_agent_are_torn_down(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        await world.csi.set_up(world.pod("u1"), INLINE)
    async with ready(root, driver) as world:
        assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)
        await world.csi.tear_down(PodUID("u1"))
        assert len(driver.made("NodeUnpublishVolume")) == 2 and len(driver.made("NodeUnstageVolume")) == 1
        assert world.csi.in_use().names == ()


async def test_volume_whose_record_cannot_be_read_for_now_stays_in_use(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)

    def refuse(path: Path, limit: int) -> bytes:
        if "u1" in path.parts:
            raise OSError(errno.EMFILE, "Too many open files")
        return read_regular(path, limit)

    with monkeypatch.context() as patched:
        patched.setattr(csi_layout, "read_regular", refuse)
        with pytest.raises(Transient, match="Too many open files"):
            World(root).layout.used()
        assert not World(root).csi.in_use().is_complete
        async with ready(root, driver) as world:
            with pytest.raises(Transient, match="Too many open files"):
                await world.csi.tear_down(PodUID("u1"))
        assert not driver.made("NodeUnpublishVolume") and not driver.made("NodeUnstageVolume")
    async with ready(root, driver) as world:
        assert world.csi.in_use() == VolumesInUse(("kubernetes.io/csi/fake.csi^vol-1",))
        await world.csi.tear_down(PodUID("u1"))
        assert driver.made("NodeUnpublishVolume") and driver.made("NodeUnstageVolume")


async def test_volume_staged_while_the_records_are_read_stays_in_use_until_it_is_unstaged(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is written only after its secret has been read."""
    secrets = {"nodeStageSecretRef": {"name": "key", "namespace": "ns"}}
    volume, asked, given = claimed(more=secrets), asyncio.Event(), asyncio.Event()

    async def secret(namespace: str, name: str) -> Secret:
        asked.set()
        await given.wait()
        return Secret()

    async with ready(root, driver) as world:
        monkeypatch.setattr(world.objects, "secret", secret)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.csi.set_up(world.pod("u1"), volume))
            await asked.wait()
            assert world.csi.in_use().is_complete
            given.set()
        driver.faults["NodeUnstageVolume"] = Fault(grpc.StatusCode.INTERNAL, "busy")
        await world.csi.tear_down(PodUID("u1"))
        assert world.staged_at().parent.exists()
        assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)


async def test_published_volume_is_in_use_though_the_driver_does_not_stage(root: Path, driver: FakeDriver) -> None:
    driver.capabilities = ()
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        assert not driver.made("NodeStageVolume")
    assert World(root).csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)
    async with ready(root, driver) as world:
        await world.csi.tear_down(PodUID("u1"))
        assert world.csi.in_use().names == () and not driver.made("NodeUnstageVolume")


async def test_unused_staged_volume_is_unstaged_at_the_start(root: Path, driver: FakeDriver) -> None:
    assert VOLUME.pv is not None
    World(root).layout.prepare_stage(csi_rules.persistent_volume(VOLUME.pv, read_only=False))
    async with ready(root, driver) as world:
        await until(lambda: driver.made("NodeUnstageVolume"))
        await until(lambda: not world.staged_at().parent.exists())


async def test_tear_down_without_driver_keeps_the_records(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
    world = World(root)
    async with world.running():
        with pytest.raises(
            Transient, match=r'failed for volume "pv1".*not found in the list of registered CSI drivers'
        ):
            await world.csi.tear_down(PodUID("u1"))
        async with serve(driver, root):
            await world.news.wait()
            assert world.objects.touched == {PodUID("u1")}
            await world.csi.tear_down(PodUID("u1"))
    assert not (root / "pods/u1/volumes/kubernetes.io~csi/pv1").exists()


async def test_failed_unstage_is_retried_and_does_not_block_the_pod(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        driver.faults["NodeUnstageVolume"] = Fault(times=1)
        await world.csi.tear_down(PodUID("u1"))
        await until(lambda: len(driver.made("NodeUnstageVolume")) >= 2)
        await until(lambda: not world.staged_at().parent.exists())


async def test_release_that_raises_is_tried_again_and_does_not_block_the_pod(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        with monkeypatch.context() as patched:
            patched.setattr(CsiLayout, "forget_staged", raising(ValueError("surprise")))
            await world.csi.tear_down(PodUID("u1"))
            assert not world.csi.has_volumes(PodUID("u1"))
        world.csi.registered(NAME)
        await until(lambda: not world.csi.in_use().names)


async def test_driver_that_hangs_while_it_unstages_does_not_keep_the_pod(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the pod is left; the volume stays in use until it is unstaged."""
    monkeypatch.setattr(csi_manager, "_BRIEFLY", 0.05)
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        driver.faults["NodeUnstageVolume"] = Fault(hang=True)
        async with asyncio.timeout(20):
            await world.csi.tear_down(PodUID("u1"))
        await until(lambda: driver.made("NodeUnstageVolume"))
        assert not world.csi.has_volumes(PodUID("u1"))
        assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)


async def test_volume_that_is_still_mounted_after_its_unstage_stays_in_use(
    root: Path, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller would detach a mounted volume."""
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        staged = world.staged_at()
        with monkeypatch.context() as patched:
            patched.setattr(csi_layout, "is_mount_point", lambda path: path == staged)
            await world.csi.tear_down(PodUID("u1"))
            assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)
        world.csi.registered(NAME)  # as when the driver has been restarted
        await until(lambda: not world.csi.in_use().names)
        assert not staged.parent.exists()


async def test_failed_unpublish_blocks_the_pod(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), VOLUME)
        driver.faults["NodeUnpublishVolume"] = Fault(grpc.StatusCode.INTERNAL, "disk on fire")
        with pytest.raises(Transient, match="rpc error: code = Internal desc = disk on fire"):
            await world.csi.tear_down(PodUID("u1"))
        await world.csi.tear_down(PodUID("u1"))


async def test_volume_that_is_not_unpublished_keeps_no_other_one_on_the_node(root: Path, driver: FakeDriver) -> None:
    """The controller may detach the others, which pods on other nodes wait for; a driver may be gone for good."""
    async with ready(root, driver) as world:
        world.objects.drivers.clear()
        world.objects.attached.set()
        await world.csi.set_up(world.pod("u1"), VOLUME)
        await world.csi.set_up(world.pod("u1"), claimed("vol-2", "pv2"))
        driver.faults["NodeUnpublishVolume"] = Fault(hang=True)
        stuck = asyncio.create_task(world.csi.tear_down(PodUID("u1")))
        await until(lambda: len(world.csi.in_use().names) == 1)
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        driver.faults["NodeUnpublishVolume"] = Fault()
        with pytest.raises(Transient, match=r"UnmountVolume\.TearDown failed"):
            await world.csi.tear_down(PodUID("u1"))
        assert len(world.csi.in_use().names) == 1 and len(driver.made("NodeUnstageVolume")) == 1
        await world.csi.tear_down(PodUID("u1"))
        assert world.csi.in_use().names == () and len(driver.made("NodeUnstageVolume")) == 2


async def test_hung_driver_delays_only_its_own_volume(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        driver.faults["NodeStageVolume"] = Fault(hang=True)
        stuck = asyncio.create_task(world.csi.set_up(world.pod("u1"), VOLUME))
        await until(lambda: driver.made("NodeStageVolume"))
        await world.csi.set_up(world.pod("u2"), claimed("vol-2", "pv2"))
        stuck.cancel()  # the pod is deleted meanwhile
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await world.csi.tear_down(PodUID("u1"))
        assert len(driver.made("NodeUnstageVolume")) == 1
        assert not world.staged_at().parent.exists()


async def test_a_driver_that_leaves_in_the_middle_of_a_call_fails_it(root: Path, driver: FakeDriver) -> None:
    """The call fails, but is not cancelled: a cancellation would end the pod's worker."""
    async with ready(root, driver) as world:
        driver.faults["NodeStageVolume"] = Fault(hang=True)
        call = asyncio.create_task(world.csi.set_up(world.pod("u1"), VOLUME))
        await until(lambda: driver.made("NodeStageVolume"))
        (root / "plugins_registry" / f"{NAME}-reg.sock").unlink()
        with pytest.raises(CsiFailed, match="has unregistered"):
            await call


async def test_a_driver_that_left_before_a_call_fails_it(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        client = world.registry.client(NAME)
        (root / "plugins_registry" / f"{NAME}-reg.sock").unlink()
        await until(lambda: not world.registry.names())
        with pytest.raises(CsiFailed, match="has unregistered"):
            await client.info()


async def test_inline_volumes_are_never_staged_nor_attached(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        world.objects.drivers[NAME] = driver_object(podInfoOnMount=True)
        await world.csi.set_up(world.pod("u1"), INLINE)
        assert not driver.made("NodeStageVolume") and not world.objects.waited
        (publish,) = driver.made("NodePublishVolume")
        context = publish["volume_context"]
        assert isinstance(context, dict) and context["csi.storage.k8s.io/ephemeral"] == "true"
        assert "staging_target_path" not in publish
        world.objects.drivers.clear()
        with pytest.raises(Unsupported, match="no CSIDriver object"):
            await world.csi.set_up(world.pod("u2"), INLINE)


async def test_volume_that_needs_attachment_fails_without_controller(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        alone = CsiVolumes(world.deps, CsiConfig(wait_attach=False))
        await alone.set_up(world.pod("u1"), VOLUME)  # one that need not be attached
        world.objects.drivers[NAME] = driver_object()
        with pytest.raises(Unsupported, match="enableControllerAttachDetach: true"):
            await alone.set_up(world.pod("u2"), VOLUME)
        assert len(driver.made("NodePublishVolume")) == 1
        await alone.tear_down(PodUID("u1"))


async def test_limit_of_attached_volumes_counts_if_the_driver_tells_its_changes(root: Path, driver: FakeDriver) -> None:
    """Otherwise the scheduler would place the next pod on the same node, and so on."""
    async with ready(root, driver) as world:
        world.objects.attach_error = AttachLimitExceeded("limit is 3")
        for period in (None, 0):
            world.objects.drivers[NAME] = driver_object(nodeAllocatableUpdatePeriodSeconds=period)
            with pytest.raises(Transient, match="limit is 3") as waits:
                await world.csi.set_up(world.pod("u1"), VOLUME)
            assert not isinstance(waits.value, AttachLimitExceeded) and world.reached == []
        world.objects.drivers[NAME] = driver_object(nodeAllocatableUpdatePeriodSeconds=60)
        await world.clock.advance(119)
        with pytest.raises(Transient, match="limit is 3") as waits:  # another volume may be detached meanwhile
            await world.csi.set_up(world.pod("u1"), VOLUME)
        assert not isinstance(waits.value, AttachLimitExceeded) and world.reached == []
        await world.clock.advance(1)
        with pytest.raises(AttachLimitExceeded, match="limit is 3"):
            await world.csi.set_up(world.pod("u1"), VOLUME)
        assert world.reached == [NAME]
        world.objects.attach_error = Transient("quota")
        with pytest.raises(Transient, match="quota"):
            await world.csi.set_up(world.pod("u1"), VOLUME)
        assert world.reached == [NAME] and not driver.made("NodeStageVolume")
        await world.csi.tear_down(PodUID("u1"))
        assert world.csi.in_use().names == ()  # the controller gives up the attachment


async def test_a_volume_waits_until_it_is_attached(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        world.objects.drivers.clear()
        task = asyncio.create_task(world.csi.set_up(world.pod("u1"), VOLUME))
        await until(lambda: world.objects.waited)
        assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)
        assert not driver.made("NodeStageVolume")
        name = sha256(b"vol-1fake.csinode-a").hexdigest()
        world.objects.metadata[f"csi-{name}"] = {"device": "/dev/x"}
        world.objects.attached.set()
        await task
        assert driver.made("NodeStageVolume")[0]["publish_context"] == {"device": "/dev/x"}
        world.objects.drivers[NAME] = driver_object(requiresRepublish=True)
        await world.csi.set_up(world.pod("u1"), VOLUME)
        first, second = driver.made("NodePublishVolume")
        assert first == second  # with all that the controller said
        await world.csi.tear_down(PodUID("u1"))
        assert world.csi.in_use().names == ()


async def test_volume_of_two_pods_is_in_use_while_one_of_them_waits(root: Path, driver: FakeDriver) -> None:
    """A second pod, for which nothing is known yet, must not take the volume off the node's status."""
    async with ready(root, driver) as world:
        world.objects.drivers.clear()
        world.objects.attached.set()
        await world.csi.set_up(world.pod("u1"), VOLUME)
        world.objects.drivers[NAME] = driver_object(attachRequired=False)
        await world.csi.set_up(world.pod("u2"), VOLUME)
        assert world.csi.in_use().names == ("kubernetes.io/csi/fake.csi^vol-1",)


async def test_secrets_tokens_and_republishing(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        world.objects.drivers[NAME] = driver_object(
            attachRequired=False, requiresRepublish=True, tokenRequests=[{"audience": "vault"}]
        )
        secret = {"namespace": "ns", "name": "key"}
        volume = claimed(more={"nodeStageSecretRef": secret, "nodePublishSecretRef": secret})
        with pytest.raises(NotFound):
            await world.csi.set_up(world.pod("u1"), volume)
        world.objects.secrets["key"] = Secret(data={"password": b"hunter2"})
        await world.csi.set_up(world.pod("u1"), volume)
        assert driver.made("NodeStageVolume")[-1]["secrets"] == {"password": "hunter2"}
        publish = driver.made("NodePublishVolume")[-1]
        assert publish["volume_context"] == {"csi.storage.k8s.io/serviceAccount.tokens": '{"vault": "u1"}'}
        assert not world.csi.is_due(world.pod("u1"), volume)
        await world.clock.advance(31)
        assert world.csi.is_due(world.pod("u1"), volume)
        await world.csi.set_up(world.pod("u1"), volume)
        assert driver.made("NodePublishVolume")[-1] == publish and len(driver.made("NodeStageVolume")) == 1


async def test_the_fs_group_is_applied_unless_the_driver_does_it(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        group = root.stat().st_gid
        await world.csi.set_up(world.pod("u1", fsGroup=group), VOLUME)
        target = world.csi.path(PodUID("u1"), VOLUME)
        assert target.stat().st_mode & 0o2070 == 0o2070


async def test_device_is_published_as_a_link_and_unstaged_after_a_restart(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        volume = claimed(volumeMode="Block")
        await world.csi.set_up(world.pod("u1"), volume)
        link = root / "pods/u1/volumeDevices/kubernetes.io~csi/pv1"
        published = root / "plugins/kubernetes.io/csi/volumeDevices/publish/pv1/u1"
        assert link.readlink() == published and published.exists()
    async with ready(root, driver) as world:
        await world.csi.tear_down(PodUID("u1"))
        assert not link.is_symlink() and not published.exists()
        assert not (root / "plugins/kubernetes.io/csi/volumeDevices/pv1").exists()
        unstage = driver.made("NodeUnstageVolume")[-1]
        assert unstage["staging_target_path"] == str(root / "plugins/kubernetes.io/csi/volumeDevices/staging/pv1")


async def test_pod_is_synced_when_its_driver_registers(root: Path, driver: FakeDriver) -> None:
    world = World(root)
    async with world.running():
        with pytest.raises(DriverMissing):
            await world.csi.set_up(world.pod("u1"), VOLUME)
        async with serve(driver, root):
            await world.news.wait()
            assert world.objects.touched == {PodUID("u1")}


async def test_a_volume_of_one_pod_is_not_given_to_another(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        volume = claimed(accessModes=["ReadWriteOncePod"])
        await world.csi.set_up(world.pod("u1"), volume)
        with pytest.raises(Conflict, match="ReadWriteOncePod access mode and is already in use by another pod"):
            await world.csi.set_up(world.pod("u2"), volume)
        await world.csi.tear_down(PodUID("u1"))
        await world.csi.set_up(world.pod("u2"), volume)


async def test_volume_of_one_pod_stays_with_a_pod_of_an_earlier_agent(root: Path, driver: FakeDriver) -> None:
    """A pod that was deleted by force may still run when the agent starts, and the scheduler does not know it."""
    volume = claimed(accessModes=["ReadWriteOncePod"])
    async with ready(root, driver) as world:
        await world.csi.set_up(world.pod("u1"), volume)
    async with ready(root, driver) as world:
        with pytest.raises(Conflict, match="already in use by another pod"):
            await world.csi.set_up(world.pod("u2"), volume)
        await world.csi.tear_down(PodUID("u1"))
        await world.csi.set_up(world.pod("u2"), volume)


async def test_volume_of_one_pod_is_given_to_one_of_two_that_begin_at_once(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        volume = claimed(accessModes=["ReadWriteOncePod"])
        pods = world.pod("u1"), world.pod("u2")
        found = await asyncio.gather(*(world.csi.set_up(pod, volume) for pod in pods), return_exceptions=True)
        assert sorted(type(each).__name__ for each in found) == ["Conflict", "NoneType"]


async def test_calls_are_measured(root: Path, driver: FakeDriver) -> None:
    seen: list[tuple[str, str, str]] = []
    async with ready(root, driver) as world:
        world.events.called.subscribe(lambda name, method, code, seconds: seen.append((name, method, code)))
        driver.faults["NodeStageVolume"] = Fault(grpc.StatusCode.FAILED_PRECONDITION)
        with pytest.raises(CsiFailed):
            await world.csi.set_up(world.pod("u1"), VOLUME)
        assert seen == [
            (NAME, "/csi.v1.Node/NodeGetCapabilities", "OK"),
            (NAME, "/csi.v1.Node/NodeStageVolume", "FailedPrecondition"),
        ]


async def test_driver_error_is_shown_with_its_message(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        driver.faults["NodeStageVolume"] = Fault(grpc.StatusCode.INVALID_ARGUMENT, "no such pool")
        with pytest.raises(CsiFailed, match="rpc error: code = InvalidArgument desc = no such pool"):
            await world.csi.set_up(world.pod("u1"), VOLUME)
        await world.csi.set_up(world.pod("u1"), VOLUME)


async def test_volume_sizes_are_reported_by_the_driver_or_unknown(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        pod = world.pod("u1")
        await world.csi.set_up(pod, VOLUME)
        sizes = await world.csi.sizes(pod, VOLUME)
        assert sizes == VolumeSizes("", 1000, 700, 300, 10, 7, 3)
        (asked,) = driver.made("NodeGetVolumeStats")
        assert asked == {"volume_id": "vol-1", "volume_path": str(world.csi.path(PodUID("u1"), VOLUME))}
    driver.capabilities = ()
    async with ready(root, driver) as world:
        assert await world.csi.sizes(pod, VOLUME) is None


async def test_volume_is_expanded_by_its_driver(root: Path, driver: FakeDriver) -> None:
    async with ready(root, driver) as world:
        pod = world.pod("u1")
        await world.csi.set_up(pod, VOLUME)
        await world.csi.expand(pod, VOLUME, Bytes(2 << 20))
        (asked,) = driver.made("NodeExpandVolume")
        assert asked["volume_path"] == str(world.csi.path(PodUID("u1"), VOLUME))
        assert asked["staging_target_path"] == str(world.staged_at())
        assert asked["capacity_range"] == {"required_bytes": str(2 << 20)}
        driver.faults["NodeExpandVolume"] = Fault(grpc.StatusCode.OUT_OF_RANGE, "too much")
        with pytest.raises(CsiFailed, match="too much") as caught:
            await world.csi.expand(pod, VOLUME, Bytes(2 << 20))
        assert world.csi.is_infeasible(caught.value)
    driver.capabilities = ()
    async with ready(root, driver) as world:
        with pytest.raises(Unsupported, match="NodeExpand is not supported by the CSI driver"):
            await world.csi.expand(pod, VOLUME, Bytes(2 << 20))
