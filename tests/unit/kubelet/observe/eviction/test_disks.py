"""Effects of a node's file systems on signals, ranking and reclaim."""

import pytest

from pykubelet.kubelet.observe.eviction.eviction_types import (
    Amount,
    ContainerUse,
    Disks,
    DiskUse,
    Part,
    PodUse,
    Reclaim,
    Resource,
    Signal,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.plan.disks import parts, reclaims, with_container_disk
from pykubelet.kubelet.types.ids import PodUID
from tests.unit.kubelet.observe.eviction.build import make_pod, ranked

ONE = Disks()
IMAGES = Disks(own_images=True)
SPLIT = Disks(own_images=True, own_containers=True)
ODD = Disks(own_containers=True)
NODEFS = Threshold(Signal.NODEFS, Amount(1))
NODEFS_SOFT = Threshold(Signal.NODEFS, Amount(2), grace=9)
NODEFS_INODES = Threshold(Signal.NODEFS_INODES, Amount(3))
IMAGEFS = Threshold(Signal.IMAGEFS, Amount(4))
IMAGEFS_INODES = Threshold(Signal.IMAGEFS_INODES, Amount(5), reclaim=Amount(6))
GIVEN = Threshold(Signal.CONTAINERFS, Amount(7))
MEMORY = Threshold(Signal.MEMORY, Amount(8))
ALL = (NODEFS, NODEFS_SOFT, NODEFS_INODES, IMAGEFS, IMAGEFS_INODES, GIVEN, MEMORY)
FROM_NODE = (
    Threshold(Signal.CONTAINERFS, Amount(1)),
    Threshold(Signal.CONTAINERFS, Amount(2), grace=9),
    Threshold(Signal.CONTAINERFS_INODES, Amount(3)),
)
FROM_IMAGES = (
    Threshold(Signal.CONTAINERFS, Amount(4)),
    Threshold(Signal.CONTAINERFS_INODES, Amount(5), reclaim=Amount(6)),
)


@pytest.mark.parametrize(("disks", "added"), [(ONE, FROM_NODE), (IMAGES, FROM_IMAGES), (SPLIT, FROM_NODE), (ODD, ())])
def test_thresholds_of_containers_are_those_of_their_file_system(disks: Disks, added: tuple[Threshold, ...]) -> None:
    kept = tuple(each for each in ALL if each is not GIVEN)
    assert with_container_disk(ALL, disks) == (*kept, *added)


@pytest.mark.parametrize(
    ("disks", "node", "images", "containers"),
    [
        (ONE, "rootfs logs volumes", "rootfs logs volumes", "rootfs logs volumes"),
        (IMAGES, "logs volumes", "rootfs", "rootfs"),
        (SPLIT, "rootfs logs volumes", "", "rootfs logs volumes"),
        (ODD, "rootfs logs volumes", "rootfs logs volumes", "rootfs logs volumes"),
    ],
)
def test_parts_that_count_by_file_system(disks: Disks, node: str, images: str, containers: str) -> None:
    for signals, expected in (
        ((Signal.NODEFS, Signal.NODEFS_INODES), node),
        ((Signal.IMAGEFS, Signal.IMAGEFS_INODES), images),
        ((Signal.CONTAINERFS, Signal.CONTAINERFS_INODES), containers),
    ):
        for signal in signals:
            assert parts(signal, disks) == {Part(name) for name in expected.split()}


@pytest.mark.parametrize(
    ("disks", "node", "images", "containers"),
    [
        (ONE, "containers images", "containers images", "containers images"),
        (IMAGES, "", "containers images", "containers images"),
        (SPLIT, "containers", "images", "containers"),
        (ODD, "containers images", "containers images", "containers images"),
    ],
)
def test_reclaims_by_file_system(disks: Disks, node: str, images: str, containers: str) -> None:
    for signals, expected in (
        ((Signal.NODEFS, Signal.NODEFS_INODES), node),
        ((Signal.IMAGEFS, Signal.IMAGEFS_INODES), images),
        ((Signal.CONTAINERFS, Signal.CONTAINERFS_INODES), containers),
        ((Signal.MEMORY, Signal.ALLOCATABLE_MEMORY, Signal.PIDS), ""),
    ):
        for signal in signals:
            assert reclaims(signal, disks) == {Reclaim(name) for name in expected.split()}


@pytest.mark.parametrize(("part", "first"), [(Part.ROOTFS, "layer"), (Part.LOGS, "logs"), (Part.VOLUMES, "volume")])
@pytest.mark.parametrize("resource", [Resource.STORAGE, Resource.INODES])
def test_ranking_counts_only_the_parts_of_the_file_system(part: Part, first: str, resource: Resource) -> None:
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]}
    pods = [make_pod(name, volumes) for name in ("small", "layer", "logs", "volume")]
    big, small = DiskUse(9, 9), DiskUse(1, 1)

    def use(name: str) -> PodUse:
        container = ContainerUse(rootfs=big if name == "layer" else small, logs=big if name == "logs" else small)
        return PodUse(
            containers={"c": container},
            volumes={"v": big if name == "volume" else small, "m": DiskUse(99, 99) if name == "small" else small},
        )

    uses = {PodUID(pod.metadata.uid): use(pod.metadata.name) for pod in pods}
    assert ranked(pods, uses, resource, frozenset((part,)))[0].metadata.name == first
