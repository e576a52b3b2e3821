"""Conversion of a snapshot to the rows of a scrape. Pure."""

from collections.abc import Iterable

from pykubelet.kubelet.observe.stats.snapshot_types import FsView, Layer, PodSnapshot, Snapshot, Storage
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.resources.usage import DiskActivity, Filesystem, MachineFacts, Reading, Readings


def readings(machine: MachineFacts, seen: Snapshot, storage: Storage) -> Readings:
    """Return a row for the machine, the QoS cgroups, each pod and each container."""
    filesystems = {
        view.device: _whole(view, seen.disks.get(view.device))
        for view in (storage.root, storage.images, storage.containers)
        if view
    }
    rows = [
        Reading(
            usage=seen.machine,
            started=seen.machine.created,
            network=seen.network,
            filesystems=tuple(filesystems.values()),
        ),
        *(Reading(usage=group, started=group.created) for group in seen.groups),
    ]
    for pod in seen.pods:
        rows += _pod(pod, storage)
    return Readings(machine, tuple(rows))


def _pod(pod: PodSnapshot, storage: Storage) -> Iterable[Reading]:
    ref = ref_of(pod.pod)
    if pod.usage is not None:
        yield Reading(
            usage=pod.usage, namespace=ref.namespace, pod=ref.name, started=pod.usage.created, network=pod.network
        )
    for container in pod.containers:
        if container.usage is None:
            continue
        layer = storage.layers.get(container.id)
        yield Reading(
            usage=container.usage,
            namespace=ref.namespace,
            pod=ref.name,
            container=container.name,
            container_id=container.id,
            image=container.image,
            started=container.started,
            filesystems=_layer(layer, storage.containers),
        )


def _whole(view: FsView, disk: DiskActivity | None) -> Filesystem:
    return Filesystem(
        device=view.device,
        used=view.used,
        capacity=view.capacity,
        inodes=view.inodes,
        inodes_free=view.inodes_free,
        disk=disk,
    )


def _layer(layer: Layer | None, view: FsView | None) -> tuple[Filesystem, ...]:
    # Without inodes: those of the file system are the node's, and repeated for each container they would add up.
    if layer is None or layer.used is None or view is None:
        return ()
    return (
        Filesystem(
            device=view.device,
            used=layer.used,
            capacity=view.capacity,
        ),
    )
