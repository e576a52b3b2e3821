"""The file systems of a node, and their meaning for the signals of disks (pure).

Images, writable layers of containers, and the rest (logs, volumes) may share a file system or not. As in the Go
kubelet, this decides what counts when pods are ranked, and what is removed before a pod is evicted
(``buildSignalToRankFunc``, ``buildSignalToNodeReclaimFuncs`` and ``UpdateContainerFsThresholds`` of
``pkg/kubelet/eviction/helpers.go``).
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from pykubelet.kubelet.observe.eviction.eviction_types import Disks, Part, Reclaim, Signal, Threshold

_NODE: Final = (Signal.NODEFS, Signal.NODEFS_INODES)
_IMAGES: Final = (Signal.IMAGEFS, Signal.IMAGEFS_INODES)
_CONTAINERS: Final = (Signal.CONTAINERFS, Signal.CONTAINERFS_INODES)
_LOCAL: Final = frozenset((Part.LOGS, Part.VOLUMES))
_ALL: Final = frozenset(Part)


def with_container_disk(thresholds: Iterable[Threshold], disks: Disks) -> tuple[Threshold, ...]:
    """Return the thresholds with those of ``containerfs``, which follow from its file system; given ones are replaced.

    They are those of nodefs if the containers are there, else those of imagefs.
    """
    kept = tuple(each for each in thresholds if each.signal not in _CONTAINERS)
    if disks.own_containers and not disks.own_images:
        return kept
    model = _IMAGES if disks.own_images and not disks.own_containers else _NODE
    names = dict(zip(model, _CONTAINERS, strict=True))
    return (*kept, *(replace(each, signal=names[each.signal]) for each in kept if each.signal in names))


def parts(signal: Signal, disks: Disks) -> frozenset[Part]:
    """Return what a pod has on the file system of the signal."""
    if not disks.own_images:
        return _ALL
    if disks.own_containers:
        return frozenset() if signal in _IMAGES else _ALL
    return _LOCAL if signal in _NODE else frozenset((Part.ROOTFS,))


def reclaims(signal: Signal, disks: Disks) -> frozenset[Reclaim]:
    """Return what is removed when the file system of the signal is short, before a pod is evicted."""
    if signal not in (*_NODE, *_IMAGES, *_CONTAINERS):
        return frozenset()
    if not disks.own_images:
        return frozenset(Reclaim)
    if disks.own_containers:
        return frozenset((Reclaim.IMAGES if signal in _IMAGES else Reclaim.CONTAINERS,))
    return frozenset() if signal in _NODE else frozenset(Reclaim)
