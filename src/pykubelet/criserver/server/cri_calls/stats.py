"""Calls about the resource usage of containers and pods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.criserver.container import Container, ContainerComponents
from pykubelet.criserver.sandbox import Sandbox, SandboxComponents
from pykubelet.criserver.server.call_table import Calls, chunks
from pykubelet.criserver.server.lists import labels_match
from pykubelet.criserver.stats import ContainerUsage, StatsCollector
from pykubelet.linux.cgroups import CgroupStats, Pressure, Stall
from pykubelet.linux.procparse import NetDevice
from pykubelet.pb import runtime_v1_pb2 as pb

_Thing = TypeVar("_Thing", Container, Sandbox)
_Stats = TypeVar("_Stats")
_INTERFACE = "eth0"
"""The interface of a pod's first network."""


class StatsCalls:
    """ContainerStats, PodSandboxStats and their lists and streams."""

    def __init__(
        self,
        *,
        collector: StatsCollector,
        containers: ContainerComponents,
        sandboxes: SandboxComponents,
        clock: Clock,
    ) -> None:
        self._collector = collector
        self._containers = containers
        self._sandboxes = sandboxes
        self._guard = Guard("stats.measured", clock.monotonic)

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("ContainerStats", pb.ContainerStatsRequest, self.container)
        calls.unary("ListContainerStats", pb.ListContainerStatsRequest, self.listed_containers)
        calls.stream("StreamContainerStats", pb.StreamContainerStatsRequest, self.stream_containers)
        calls.unary("PodSandboxStats", pb.PodSandboxStatsRequest, self.pod)
        calls.unary("ListPodSandboxStats", pb.ListPodSandboxStatsRequest, self.listed_pods)
        calls.stream("StreamPodSandboxStats", pb.StreamPodSandboxStatsRequest, self.stream_pods)

    async def container(self, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
        """Return the stats of one container."""
        return pb.ContainerStatsResponse(stats=await self._of(self._containers.table.get(request.container_id)))

    async def listed_containers(self, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
        """Return the stats of the running containers that match a filter."""
        return pb.ListContainerStatsResponse(stats=await self._containers_found(request.filter))

    async def stream_containers(
        self, request: pb.StreamContainerStatsRequest
    ) -> AsyncIterator[pb.StreamContainerStatsResponse]:
        """Stream the stats of running containers in chunks."""
        for piece in chunks(await self._containers_found(request.filter)):
            yield pb.StreamContainerStatsResponse(container_stats=piece)

    async def pod(self, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
        """Return the stats of one pod."""
        return pb.PodSandboxStatsResponse(stats=await self._of_pod(self._sandboxes.table.get(request.pod_sandbox_id)))

    async def listed_pods(self, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
        """Return the stats of the ready pods that match a filter."""
        return pb.ListPodSandboxStatsResponse(stats=await self._pods_found(request.filter))

    async def stream_pods(
        self, request: pb.StreamPodSandboxStatsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxStatsResponse]:
        """Stream the stats of ready pods in chunks."""
        for piece in chunks(await self._pods_found(request.filter)):
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=piece)

    async def _containers_found(self, wanted: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        selector = dict(wanted.label_selector)
        found = [
            each
            for each in self._containers.table.visible()
            if each.running
            and each.id.startswith(wanted.id)
            and each.record.sandbox_id.startswith(wanted.pod_sandbox_id)
            and labels_match(each.config.labels, selector)
        ]
        return await self._each(self._of, found, bool(wanted.id or wanted.pod_sandbox_id))

    async def _pods_found(self, wanted: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        selector = dict(wanted.label_selector)
        found = [
            each
            for each in self._sandboxes.table.visible()
            if each.ready and each.id.startswith(wanted.id) and labels_match(each.config.labels, selector)
        ]
        # Drop the samples of removed pods and containers.
        known = [each.record.cgroup for each in self._containers.table.visible()]
        self._collector.keep_only(
            [*known, *(each.config.linux.cgroup_parent for each in self._sandboxes.table.visible())]
        )
        return await self._each(self._of_pod, found, bool(wanted.id))

    async def _each(
        self, measure: Callable[[_Thing], Awaitable[_Stats]], things: Iterable[_Thing], particular: bool
    ) -> list[_Stats]:
        """Measure each; in a list of all, a failure (its cgroup hangs, say) omits only that one. ``particular``: the
        client asked for these, so the error is raised."""
        found: list[_Stats] = []

        async def take(thing: _Thing) -> None:
            with self._guard.item(thing.id) as attempt:
                found.append(await measure(thing))
            if attempt.error is not None and particular:
                raise attempt.error

        await asyncio.gather(*map(take, things))
        return found

    async def _of(self, container: Container) -> pb.ContainerStats:
        usage = await self._collector.container(container)
        config = container.config
        stats = pb.ContainerStats(
            attributes=pb.ContainerAttributes(
                id=container.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
            ),
            cpu=_cpu(usage.at, usage.cgroup, usage.cores_ns),
            memory=_memory(usage.at, usage.cgroup, config.linux.resources.memory_limit_in_bytes),
            swap=_swap(usage),
            io=_io(usage.at, usage.cgroup),
        )
        if usage.layer is not None:
            stats.writable_layer.CopyFrom(
                pb.FilesystemUsage(
                    timestamp=usage.at,
                    fs_id=pb.FilesystemIdentifier(mountpoint=usage.layer.mountpoint),
                    used_bytes=pb.UInt64Value(value=usage.layer.used),
                    inodes_used=pb.UInt64Value(value=usage.layer.inodes),
                )
            )
        return stats

    async def _of_pod(self, sandbox: Sandbox) -> pb.PodSandboxStats:
        usage = await self._collector.pod(sandbox, self._sandboxes.layout.netns(sandbox))
        running = [each for each in self._containers.table.of_sandbox(sandbox.id) if each.running]
        config = sandbox.config
        linux = pb.LinuxPodSandboxStats(
            cpu=_cpu(usage.at, usage.cgroup, usage.cores_ns),
            memory=_memory(usage.at, usage.cgroup, 0),
            network=_network(usage.at, usage.interfaces),
            io=_io(usage.at, usage.cgroup),
            process=pb.ProcessUsage(timestamp=usage.at, process_count=pb.UInt64Value(value=usage.cgroup.pids or 0)),
            containers=await self._each(self._of, running, particular=True),
        )
        attributes = pb.PodSandboxAttributes(
            id=sandbox.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
        )
        return pb.PodSandboxStats(attributes=attributes, linux=linux)


def _cpu(at: int, cgroup: CgroupStats, cores_ns: int | None) -> pb.CpuUsage:
    usage = pb.CpuUsage(timestamp=at, usage_core_nano_seconds=pb.UInt64Value(value=cgroup.cpu_usage_ns or 0))
    if cores_ns is not None:
        usage.usage_nano_cores.value = cores_ns
    if cgroup.cpu_pressure is not None:
        usage.psi.CopyFrom(_psi(cgroup.cpu_pressure))
    return usage


def _memory(at: int, cgroup: CgroupStats, limit: int) -> pb.MemoryUsage:
    working_set = cgroup.memory_working_set or 0
    usage = pb.MemoryUsage(
        timestamp=at,
        working_set_bytes=pb.UInt64Value(value=working_set),
        usage_bytes=pb.UInt64Value(value=cgroup.memory_usage or 0),
        rss_bytes=pb.UInt64Value(value=cgroup.memory_rss or 0),
        page_faults=pb.UInt64Value(value=cgroup.page_faults or 0),
        major_page_faults=pb.UInt64Value(value=cgroup.major_page_faults or 0),
    )
    if limit:
        usage.available_bytes.value = max(0, limit - working_set)
    if cgroup.memory_pressure is not None:
        usage.psi.CopyFrom(_psi(cgroup.memory_pressure))
    return usage


def _io(at: int, cgroup: CgroupStats) -> pb.IoUsage | None:
    return None if cgroup.io_pressure is None else pb.IoUsage(timestamp=at, psi=_psi(cgroup.io_pressure))


def _psi(found: Pressure) -> pb.PsiStats:
    return pb.PsiStats(Some=_stall(found.some), Full=_stall(found.full))


def _stall(line: Stall) -> pb.PsiData:
    """CRI counts in nanoseconds, the kernel in microseconds."""
    return pb.PsiData(Total=line.total_us * 1000, Avg10=line.avg10, Avg60=line.avg60, Avg300=line.avg300)


def _swap(usage: ContainerUsage) -> pb.SwapUsage:
    return pb.SwapUsage(timestamp=usage.at, swap_usage_bytes=pb.UInt64Value(value=usage.cgroup.swap or 0))


def _network(at: int, interfaces: tuple[NetDevice, ...]) -> pb.NetworkUsage:
    usage = pb.NetworkUsage(timestamp=at)
    # Not always the first: tunnels that the kernel makes in each namespace are older than eth0.
    default = next((each for each in interfaces if each.name == _INTERFACE), next(iter(interfaces), None))
    if default is not None:
        usage.default_interface.CopyFrom(_interface(default))
    usage.interfaces.extend(_interface(each) for each in interfaces if each is not default)
    return usage


def _interface(device: NetDevice) -> pb.NetworkInterfaceUsage:
    return pb.NetworkInterfaceUsage(
        name=device.name,
        rx_bytes=pb.UInt64Value(value=device.rx_bytes),
        rx_errors=pb.UInt64Value(value=device.rx_errors),
        tx_bytes=pb.UInt64Value(value=device.tx_bytes),
        tx_errors=pb.UInt64Value(value=device.tx_errors),
    )
