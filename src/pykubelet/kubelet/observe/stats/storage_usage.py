"""File systems of the node and of the runtime, and containers' writable layers as the runtime reports them."""

import logging
from collections.abc import Iterable
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.observe.stats.snapshot_types import FsView, Layer, Storage
from pykubelet.kubelet.observe.stats.stats_interfaces import UsageCri
from pykubelet.kubelet.types.resources.usage import CpuUsage
from pykubelet.linux.filesystems import fsusage, mountinfo
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


async def layers(cri: UsageCri) -> dict[str, Layer]:
    """Return the runtime's figures by container id; empty if the runtime does not report them."""
    try:
        found = await cri.list_container_stats()
    except PykubeletError as error:
        _log.warning("stats: container stats of the runtime unavailable", extra={"error": str(error)})
        return {}
    return {stats.attributes.id: _layer(stats) for stats in found}


async def storage(root: Path, cri: UsageCri, image_cri: UsageCri) -> Storage:
    """Return the file systems and writable layers, without those that the runtime does not report."""
    images: list[pb.FilesystemUsage] = []
    containers: list[pb.FilesystemUsage] = []
    known = await layers(cri)
    try:
        reply = await image_cri.image_fs_info()
        images, containers = list(reply.image_filesystems), list(reply.container_filesystems)
    except PykubeletError as error:
        _log.warning("stats: image file system of the runtime unavailable", extra={"error": str(error)})
    image = images[0] if images else None
    container = containers[0] if containers else image
    paths = [str(root), *(usage.fs_id.mountpoint for usage in (image, container) if usage is not None)]
    views = await blocking.call("storage", _views, paths)
    return Storage(
        root=views.get(str(root)),
        images=views.get(image.fs_id.mountpoint) if image is not None else None,
        images_used=_used(image),
        containers=views.get(container.fs_id.mountpoint) if container is not None else None,
        containers_used=_used(container),
        layers=known,
    )


def _views(paths: Iterable[str]) -> dict[str, FsView]:
    mounts = mountinfo.mounts()
    views = {}
    for path in set(paths):
        try:
            usage = fsusage.filesystem(path)
        except (PykubeletError, OSError):
            continue
        holders = [m for m in mounts if path == m.path or path.startswith(m.path.rstrip("/") + "/")]
        device = max(holders, key=lambda m: len(m.path)).source if holders else ""
        views[path] = FsView(path, device, usage.capacity, usage.available, usage.used, usage.inodes, usage.inodes_free)
    return views


def _layer(stats: pb.ContainerStats) -> Layer:
    layer, cpu, memory = stats.writable_layer, stats.cpu, stats.memory
    return Layer(
        mountpoint=layer.fs_id.mountpoint,
        used=layer.used_bytes.value if layer.HasField("used_bytes") else None,
        inodes=layer.inodes_used.value if layer.HasField("inodes_used") else None,
        cpu=CpuUsage(total_ns=cpu.usage_core_nano_seconds.value) if cpu.HasField("usage_core_nano_seconds") else None,
        working_set=memory.working_set_bytes.value if memory.HasField("working_set_bytes") else None,
    )


def _used(usage: pb.FilesystemUsage | None) -> tuple[int | None, int | None]:
    if usage is None:
        return None, None
    return (
        usage.used_bytes.value if usage.HasField("used_bytes") else None,
        usage.inodes_used.value if usage.HasField("inodes_used") else None,
    )
