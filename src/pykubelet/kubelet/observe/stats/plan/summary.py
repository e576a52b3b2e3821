"""Conversion of a snapshot to the Summary API (``stats/v1alpha1``). Pure.

``rate`` returns the CPU usage for a name and a CPU time in nanoseconds, in billionths of a core, or None.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.kubelet.observe.stats.snapshot_types import (
    ContainerSnapshot,
    Daemon,
    FsView,
    Layer,
    PodSnapshot,
    Snapshot,
    Storage,
)
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resources import stats
from pykubelet.kubelet.types.resources.usage import CgroupUsage
from pykubelet.linux.procparse import NetDevice
from pykubelet.models.scalars import Time, time_from_unix

Rate = Callable[[str, int], int | None]


class PodFiles(Struct, frozen=True):
    """Disk usage of a pod: its volumes, names of the ephemeral ones, its logs by container, its other files."""

    volumes: tuple[stats.VolumeStats, ...] = ()
    ephemeral: tuple[str, ...] = ()
    logs: Mapping[str, stats.FsStats] = field(default_factory=dict)
    own: stats.FsStats | None = None


class Disk(Struct, frozen=True):
    """Disk usage of the node and its pods."""

    storage: Storage = field(default_factory=Storage)
    files: Mapping[PodUID, PodFiles] = field(default_factory=dict)


def summary(node_name: str, booted: float, seen: Snapshot, disk: Disk | None, rate: Rate) -> stats.Summary:
    """Return the Summary; without ``disk``, of CPU and memory only."""
    builder = _Builder(seen=seen, disk=disk or Disk(), rate=rate, light=disk is None)
    return stats.Summary(
        node=builder.node(node_name, booted),
        pods=tuple(builder.pod(pod) for pod in seen.pods),
    )


def cpu_stats(usage: CgroupUsage, rate: Rate) -> stats.CpuStats | None:
    """Return the CPU time and usage of a cgroup."""
    if usage.cpu is None:
        return None
    return stats.CpuStats(
        time=time_from_unix(usage.at),
        usage_nano_cores=rate(usage.path, usage.cpu.total_ns),
        usage_core_nano_seconds=usage.cpu.total_ns,
        psi=usage.pressure.cpu,
    )


def memory_stats(usage: CgroupUsage) -> stats.MemoryStats | None:
    """Return the memory usage of a cgroup; available memory only if the cgroup has a limit."""
    memory = usage.memory
    if memory is None:
        return None
    return stats.MemoryStats(
        time=time_from_unix(usage.at),
        available_bytes=None if memory.limit is None else max(0, memory.limit - memory.working_set),
        usage_bytes=memory.usage,
        working_set_bytes=memory.working_set,
        rss_bytes=memory.rss,
        page_faults=memory.page_faults,
        major_page_faults=memory.major_page_faults,
        psi=usage.pressure.memory,
    )


def swap_stats(usage: CgroupUsage) -> stats.SwapStats | None:
    """Return the swap usage of a cgroup; None where the kernel does not account for it."""
    memory = usage.memory
    if memory is None or memory.swap is None:
        return None
    limit = memory.swap_limit
    return stats.SwapStats(
        time=time_from_unix(usage.at),
        swap_available_bytes=None if limit is None else max(0, limit - memory.swap),
        swap_usage_bytes=memory.swap,
    )


def io_stats(usage: CgroupUsage) -> stats.IoStats | None:
    """Return the pressure on block devices; None where the kernel does not report it."""
    psi = usage.pressure.io
    return None if psi is None else stats.IoStats(time=time_from_unix(usage.at), psi=psi)


def network_stats(at: float, interfaces: tuple[NetDevice, ...], default: str) -> stats.NetworkStats | None:
    """Return the counters of the default interface (else the first one) and of all interfaces."""
    shown = tuple(
        stats.InterfaceStats(
            name=i.name, rx_bytes=i.rx_bytes, rx_errors=i.rx_errors, tx_bytes=i.tx_bytes, tx_errors=i.tx_errors
        )
        for i in interfaces
    )
    if not shown:
        return None
    first = next((i for i in shown if i.name == default), shown[0])
    return stats.NetworkStats(
        time=time_from_unix(at),
        name=first.name,
        rx_bytes=first.rx_bytes,
        rx_errors=first.rx_errors,
        tx_bytes=first.tx_bytes,
        tx_errors=first.tx_errors,
        interfaces=shown,
    )


class _Builder:
    def __init__(self, *, seen: Snapshot, disk: Disk, rate: Rate, light: bool) -> None:
        self._seen = seen
        self._disk = disk
        self._rate = rate
        self._light = light
        self._time: Time = time_from_unix(seen.at)

    def node(self, name: str, booted: float) -> stats.NodeStats:
        seen, storage, machine = self._seen, self._disk.storage, self._seen.machine
        node = stats.NodeStats(
            node_name=name,
            system_containers=tuple(self._daemon(daemon) for daemon in self._daemons()),
            start_time=time_from_unix(booted),
            cpu=cpu_stats(machine, self._rate),
            memory=memory_stats(machine),
            swap=swap_stats(machine),
        )
        if self._light:
            return node
        return stats.NodeStats(
            node_name=name,
            system_containers=node.system_containers,
            start_time=node.start_time,
            cpu=node.cpu,
            memory=node.memory,
            swap=node.swap,
            io=io_stats(machine),
            network=network_stats(seen.at, seen.network, seen.default_interface),
            fs=self._fs(storage.root),
            runtime=stats.RuntimeStats(
                image_fs=self._fs(storage.images, storage.images_used),
                container_fs=self._fs(storage.containers, storage.containers_used),
            ),
            rlimit=stats.RlimitStats(time=self._time, max_pid=seen.pid_limit, running=machine.threads),
        )

    def pod(self, seen: PodSnapshot) -> stats.PodStats:
        ref, usage = ref_of(seen.pod), seen.usage
        files = self._disk.files.get(ref.uid, PodFiles())
        started = seen.pod.status.start_time
        containers = tuple(self._container(container, files) for container in seen.containers)
        threads = usage.threads if usage is not None else None
        return stats.PodStats(
            pod_ref=stats.PodReference(name=ref.name, namespace=ref.namespace, uid=ref.uid),
            start_time=started,
            containers=containers,
            cpu=cpu_stats(usage, self._rate) if usage is not None else None,
            memory=memory_stats(usage) if usage is not None else None,
            swap=swap_stats(usage) if usage is not None else None,
            io=io_stats(usage) if usage is not None and not self._light else None,
            network=None if self._light else network_stats(self._seen.at, seen.network, "eth0"),
            volume=files.volumes,
            ephemeral_storage=None if self._light else self._ephemeral(containers, files),
            process_stats=None if self._light or threads is None else stats.ProcessStats(process_count=threads),
        )

    def _daemons(self) -> Iterable[Daemon]:
        yield from self._seen.daemons
        if self._seen.groups:
            pods = self._seen.groups[0]
            yield Daemon("pods", pods.created, self._limited(pods))

    def _limited(self, pods: CgroupUsage) -> CgroupUsage:
        """Set the machine's memory as the limit of all pods if their cgroup has none (upstream: in the cgroup)."""
        machine = self._seen.machine.memory
        if pods.memory is None or pods.memory.limit is not None or machine is None:
            return pods
        return replace(pods, memory=replace(pods.memory, limit=machine.limit))

    def _daemon(self, daemon: Daemon) -> stats.ContainerStats:
        return stats.ContainerStats(
            name=daemon.name,
            start_time=time_from_unix(daemon.started),
            cpu=cpu_stats(daemon.usage, self._rate),
            memory=memory_stats(daemon.usage),
            swap=swap_stats(daemon.usage),
            io=None if self._light else io_stats(daemon.usage),
        )

    def _container(self, container: ContainerSnapshot, files: PodFiles) -> stats.ContainerStats:
        usage = container.usage
        return stats.ContainerStats(
            name=container.name,
            start_time=time_from_unix(container.started),
            cpu=cpu_stats(usage, self._rate) if usage is not None else None,
            memory=memory_stats(usage) if usage is not None else None,
            swap=swap_stats(usage) if usage is not None else None,
            io=io_stats(usage) if usage is not None and not self._light else None,
            rootfs=None if self._light else self._rootfs(self._disk.storage.layers.get(container.id)),
            logs=None if self._light else self._part(self._disk.storage.root, files.logs.get(container.name)),
        )

    def _rootfs(self, layer: Layer | None) -> stats.FsStats | None:
        if layer is None:
            return None
        return self._fs(self._disk.storage.containers, (layer.used, layer.inodes))

    def _ephemeral(self, containers: Iterable[stats.ContainerStats], files: PodFiles) -> stats.FsStats | None:
        parts: list[stats.FsStats | stats.VolumeStats] = [
            part for c in containers for part in (c.rootfs, c.logs) if part is not None
        ]
        parts += [volume for volume in files.volumes if volume.name in files.ephemeral]
        if files.own is not None:
            parts.append(files.own)
        if not parts:
            return None
        used = sum(part.used_bytes or 0 for part in parts)
        inodes = sum(part.inodes_used or 0 for part in parts)
        return self._fs(self._disk.storage.root, (used, inodes))

    def _part(self, view: FsView | None, part: stats.FsStats | None) -> stats.FsStats | None:
        return None if part is None else self._fs(view, (part.used_bytes, part.inodes_used))

    def _fs(self, view: FsView | None, used: tuple[int | None, int | None] | None = None) -> stats.FsStats | None:
        """Return a file system with its own usage, or with ``used`` (bytes, inodes) of a part of it."""
        if view is None:
            return None
        own = (view.used, view.inodes - view.inodes_free)
        taken, inodes = own if used is None else used
        return stats.FsStats(
            time=self._time,
            available_bytes=view.available,
            capacity_bytes=view.capacity,
            used_bytes=taken,
            inodes_free=view.inodes_free,
            inodes=view.inodes,
            inodes_used=inodes,
        )
