"""Image garbage collector with a table of images and containers."""

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import Conflict, Invalid, PykubeletError, Transient
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.images.image_gc import GC_SECONDS, GcDeps, ImageGc, disk_use
from pykubelet.kubelet.actuate.images.plan.image_gc import ImageDiskUse, ImageGcPolicy
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.models.core_v1 import ImageVolumeSource, Pod, PodSpec, Volume
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry


@dataclass
class Node:
    """Images, containers and the disk."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    images: dict[str, pb.Image] = field(default_factory=dict)
    containers: list[pb.Container] = field(default_factory=list)
    sandbox_image: str = ""
    available: int = 1000
    capacity: int = 1000
    events: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    refusing: set[str] = field(default_factory=set)
    info: dict[str, str] = field(default_factory=dict)
    trash: list[Bytes] = field(default_factory=list)
    down: bool = False
    pods: list[Pod] = field(default_factory=list)
    pruned: list[tuple[list[str], float]] = field(default_factory=list)

    def add(self, name: str, size: int = 100, *, pinned: bool = False) -> None:
        self.images[name] = pb.Image(id=name, size=size, pinned=pinned, repo_tags=[f"{name}:1"])

    def use(self, **names: str) -> None:
        self.containers.append(pb.Container(id="c", **names))  # type: ignore[arg-type]  # one of its text fields

    def gc(self, policy: ImageGcPolicy | None = None) -> ImageGc:
        deps = GcDeps(
            images=self,
            users=self,
            telemetry=telemetry(self.clock, self, events=self),
            disk=self.disk,
            pods=self.there,
            pulled=self,
        )
        return ImageGc(deps, policy or ImageGcPolicy())

    def disk(self, path: str) -> ImageDiskUse:
        assert path == "/images"
        return ImageDiskUse(Bytes(self.capacity), Bytes(self.available))

    async def list_images(self, filter: pb.ImageFilter | None = None) -> list[pb.Image]:
        if self.down:
            raise Transient("runtime down")
        return list(self.images.values())

    async def prune(self, images: Collection[pb.Image], listed_at: float) -> None:
        self.pruned.append((sorted(image.id for image in images), listed_at))

    def there(self) -> list[Pod]:
        return self.pods

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        if not image.image:
            raise Invalid("an image reference is needed")
        found = [name for name in self.images if name.startswith(image.image)]
        if len(found) > 1:
            raise Conflict(f"image id {image.image!r} is the beginning of {len(found)} ids")
        return self.images.get(image.image.removesuffix(":1"))

    async def remove_image(self, image: pb.ImageSpec) -> None:
        if image.image in self.refusing:
            raise PykubeletError("busy")
        self.available += self.images.pop(image.image).size

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        where = pb.FilesystemIdentifier(mountpoint="/images")
        return pb.ImageFsInfoResponse(image_filesystems=[pb.FilesystemUsage(fs_id=where)])

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        return self.containers

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        assert verbose
        return pb.StatusResponse(info={"config": json.dumps({"sandboxImage": self.sandbox_image}), **self.info})

    def runtime_trash(self, size: Bytes) -> None:
        self.trash.append(size)

    def image_collected(self, reason: str) -> None:
        self.counted.append(reason)

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.events.append(reason)


async def test_a_full_disk_is_freed_down_to_the_low_threshold() -> None:
    node = Node(available=120)
    for name in "abc":
        node.add(name)
    gc = node.gc(ImageGcPolicy(minimum_age=0))
    assert await gc.collect() == 100
    assert (sorted(node.images), node.counted, node.events) == (["b", "c"], ["space"], [])
    assert await gc.collect() == 0


async def test_records_are_dropped_but_for_the_images_that_are_left() -> None:
    node = Node(available=120)
    for name in "abc":
        node.add(name)
    gc = node.gc(ImageGcPolicy(minimum_age=0))
    await gc.collect()
    await gc.remove_unused()
    assert node.pruned == [(["b", "c"], node.clock.now()), ([], node.clock.now())]
    node.available, node.capacity = 0, 1000
    with pytest.raises(Transient):
        await gc.collect()
    assert len(node.pruned) == 3, "also if too little was freed"
    node.down = True
    with pytest.raises(Transient):
        await gc.collect()
    assert len(node.pruned) == 3, "not without a list of images"


@pytest.mark.parametrize("names", [{"image_ref": "a"}, {"image_id": "a"}, {"image_ref": "a:1"}])
async def test_images_of_containers_stay(names: dict[str, str]) -> None:
    node = Node(available=0)
    node.add("a")
    node.use(**names)
    with pytest.raises(Transient, match="freed 0 bytes"):
        await node.gc(ImageGcPolicy(minimum_age=0)).collect()
    assert list(node.images) == ["a"]
    assert node.events == ["FreeDiskSpaceFailed"]


async def test_images_mounted_as_volumes_stay() -> None:
    machine = Node(available=0)
    machine.add("data")
    machine.add("free")
    volumes = tuple(Volume(name=n, image=ImageVolumeSource(reference=f"{n}:1")) for n in ("data", "absent"))
    machine.pods.append(Pod(spec=PodSpec(volumes=volumes)))
    with pytest.raises(Transient):
        await machine.gc(ImageGcPolicy(minimum_age=0)).collect()
    assert set(machine.images) == {"data"}


@pytest.mark.parametrize("reference", ["", "abc"])
async def test_image_volume_that_the_runtime_does_not_know_keeps_no_other_image(reference: str) -> None:
    """Two images whose ids begin alike are made in no time: a pod that mounts "abc" must not keep the disk full."""
    machine = Node(available=120)
    for name in ("abcd", "abce", "other"):
        machine.add(name)
    volume = Volume(name="v", image=ImageVolumeSource(reference=reference))
    machine.pods.append(Pod(spec=PodSpec(volumes=(volume,))))
    gc = machine.gc(ImageGcPolicy(minimum_age=0))
    await gc.remove_unused()
    assert sorted(machine.images) == (["abcd", "abce"] if reference == "abc" else [])
    assert machine.events == []


async def test_pinned_images_and_that_of_sandboxes_stay() -> None:
    node = Node(available=900, sandbox_image="pause:1")
    node.add("pinned", pinned=True)
    node.add("pause")
    node.add("free")
    assert await node.gc().remove_unused() == 100
    assert sorted(node.images) == ["pause", "pinned"]


async def test_disk_pressure_spares_images_that_were_just_pulled() -> None:
    """They may have been pulled for a container that is not created yet; upstream keeps them as well."""
    node = Node()
    node.add("there")
    gc = node.gc(ImageGcPolicy(minimum_age=120))
    await gc.collect()
    await node.clock.advance(60)
    node.add("pulled")
    assert await gc.remove_unused() == 100
    assert sorted(node.images) == ["pulled"], "of those that the agent found there, the age is unknown"
    await node.clock.advance(119)
    assert await gc.remove_unused() == 0
    await node.clock.advance(1)
    assert await gc.remove_unused() == 100
    assert not node.images


async def test_new_images_are_kept() -> None:
    node = Node(available=100)
    node.add("a")
    gc = node.gc()
    with pytest.raises(Transient):
        await gc.collect()
    await node.clock.advance(121)
    assert await gc.collect() == 100


async def test_images_unused_for_long() -> None:
    node = Node()
    node.add("a")
    node.add("b")
    gc = node.gc(ImageGcPolicy(maximum_age=1000))
    await gc.collect()
    await node.clock.advance(900)
    node.use(image_ref="b")
    await gc.collect()
    node.containers.clear()
    await node.clock.advance(200)
    await gc.collect()
    assert (list(node.images), node.counted) == (["b"], ["age"])


async def test_image_that_cannot_be_removed_does_not_block_others() -> None:
    node = Node(available=0, refusing={"a"})
    node.add("a")
    node.add("b", size=200)
    assert await node.gc(ImageGcPolicy(minimum_age=0)).collect() == 200
    assert list(node.images) == ["a"]


async def test_zero_capacity_is_reported() -> None:
    node = Node(capacity=0)
    with pytest.raises(Transient, match="invalid capacity 0"):
        await node.gc().collect()
    assert node.events == ["InvalidDiskCapacity"]


async def test_gc_continues_after_failures_and_reports_the_second() -> None:
    node = Node(down=True)
    task = asyncio.create_task(node.gc().run())
    await node.clock.settle()
    assert node.events == []
    await node.clock.advance(GC_SECONDS)
    assert node.events == ["ImageGCFailed"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_use_of_the_real_disk_is_plausible() -> None:
    found = disk_use("/")
    assert 0 < found.available < found.capacity
    assert 0 <= found.percent <= 100


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_images_after_the_wall_clock_jumped_are_as_old_as_before(jump: float) -> None:
    node = Node(available=100)
    node.add("a")
    gc = node.gc(ImageGcPolicy(maximum_age=1000))
    with pytest.raises(Transient):
        await gc.collect()
    node.clock.jump_wall(jump)
    await node.clock.advance(100)
    with pytest.raises(Transient):
        await gc.collect()
    await node.clock.advance(21)
    assert await gc.collect() == 100
    assert node.counted == ["space"]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"trash": '{"trees": 2, "bytes": 4096, "inodes": 7}'}, [4096]),
        ({}, []),  # another runtime
        ({"trash": "[]"}, [0]),
        ({"trash": "{"}, [0]),
    ],
)
async def test_round_reports_what_the_runtime_still_has_to_delete(info: dict[str, str], expected: list[int]) -> None:
    node = Node(info=info)
    await node.gc().collect()
    assert node.trash == expected
