"""Usage of the node, its pods and containers, measured when somebody asks. Nothing is polled.

CPU and memory come from cgroups, for pods without one (a runtime that keeps its containers in virtual machines, say)
from the runtime; writable layers and image file systems from the runtime; network counters from a process of the pod.
A reading is good for ten seconds, and is made once however many ask.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pykubelet.base import blocking
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats import storage
from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.kubelet.observe.stats.compute_readings import readings
from pykubelet.kubelet.observe.stats.compute_summary import Disk, PodFiles, summary
from pykubelet.kubelet.observe.stats.interfaces import StatsConfig, StatsDeps
from pykubelet.kubelet.observe.stats.machine_reader import MachineReader
from pykubelet.kubelet.observe.stats.rates import CpuRates
from pykubelet.kubelet.observe.stats.types import Layer, Seen, SeenPod, Storage
from pykubelet.kubelet.observe.stats.volumes import DiskUsage
from pykubelet.kubelet.observe.stats.walk import MachineWalk
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.stats import Summary
from pykubelet.kubelet.types.usage import CgroupUsage, Machine, MemoryUsage, Readings

_FIRST_WINDOW: Seconds = 0.25
"""Between the two readings that a CPU usage needs, when there is none from before."""


class NodeUsage:
    """See the module. ``run`` has to be running for figures of volumes and logs."""

    def __init__(self, config: StatsConfig, deps: StatsDeps) -> None:
        self._config = config
        self._deps = deps
        cgroups = CgroupReader(config.layout)
        self._reader = MachineReader(config.layout, cgroups, config.runtime_socket)
        self._walk = MachineWalk(config.groups, cgroups, self._reader)
        self._rates = CpuRates()
        self._disk = DiskUsage(config.root_dir, config.pod_logs_dir, config.volume_period, deps.clock, deps.volumes)
        self._lock = asyncio.Lock()
        self._seen: Seen | None = None
        self._storage: tuple[Seconds, Storage] | None = None
        self._machine: Machine | None = None

    async def run(self) -> None:
        """Count what pods' files take, when it is asked for, until cancelled."""
        await self._disk.run()

    async def summary(self, *, only_cpu_and_memory: bool = False) -> Summary:
        """The Summary API's answer, for all pods of which something runs."""
        files = {} if only_cpu_and_memory else await self._files()
        async with self._lock:
            seen = await self._look(full=False, rates=True)
            disk = None if only_cpu_and_memory else Disk(await self._storages(), files=files)

            def rate(name: str, cpu_ns: int) -> int | None:
                return self._rates.usage(name, seen.monotonic, cpu_ns)

            found = summary(self._config.node_name, self._reader.booted, seen, disk, rate)
            self._rates.keep_only(usage.path for usage in _usages(seen))
            return found

    async def _files(self) -> Mapping[PodUID, PodFiles]:
        """What pods' files take. Counting may take long, so no other reading waits for it."""
        async with self._lock:
            seen = await self._look(full=False, rates=True)
        return await self._disk.of(pod.pod for pod in seen.pods)

    async def readings(self, *, full: bool = True) -> Readings:
        """Every cgroup for a scrape; ``full`` with limits, I/O, processes and file systems."""
        async with self._lock:
            seen = await self._look(full=full, rates=False)
            stored = await self._storages() if full else Storage()
            if self._machine is None:
                self._machine = await blocking.call("stats", self._reader.describe)
            return readings(self._machine, seen, stored)

    async def _look(self, *, full: bool, rates: bool) -> Seen:
        clock = self._deps.clock
        last = self._seen
        if last is not None and self._good_enough(last, full=full, rates=rates):
            return last
        pods = [(pod, self._deps.pod_cgroup(pod)) for pod in self._deps.pods()]
        if rates:
            await self._prepare_rates([path for _, path in pods if path])
        moment = (clock.now(), clock.monotonic())
        seen = await blocking.call("stats", self._walk.look, pods, moment, full)
        if any(c.usage is None or c.usage.cpu is None for pod in seen.pods for c in pod.containers):
            seen = _completed(seen, await storage.layers(self._deps.cri))
        self._seen = seen
        return seen

    def _good_enough(self, last: Seen, *, full: bool, rates: bool) -> bool:
        now = self._deps.clock.monotonic()
        if now - last.monotonic >= self._config.fresh_for or last.full < full:
            return False
        return not rates or not self._rates.stale((usage.path for usage in _usages(last)), now)

    async def _prepare_rates(self, pod_paths: Iterable[str]) -> None:
        """Where no usage could be told, take a first reading now and let a moment pass."""
        found = await blocking.call("stats", self._walk.cpu_times, list(pod_paths))
        now = self._deps.clock.monotonic()
        fresh = self._rates.stale(found, now)
        for name in fresh:
            self._rates.usage(name, now, found[name])
        if fresh:
            await self._deps.clock.sleep(_FIRST_WINDOW)

    async def _storages(self) -> Storage:
        now = self._deps.clock.monotonic()
        if self._storage is None or now - self._storage[0] >= self._config.fresh_for:
            found = await storage.storage(self._config.root_dir, self._deps.cri, self._deps.image_cri)
            self._storage = (now, found)
        return self._storage[1]


def _usages(seen: Seen) -> Iterable[CgroupUsage]:
    """Those of which the Summary API shows a rate: of the groups the one above all."""
    yield seen.machine
    yield from seen.groups[:1]
    yield from (daemon.usage for daemon in seen.daemons)
    for pod in seen.pods:
        yield from (usage for usage in (pod.usage, *(c.usage for c in pod.containers)) if usage is not None)


def _completed(seen: Seen, layers: dict[str, Layer]) -> Seen:
    """With the runtime's account of containers whose cgroup we cannot read."""
    return replace(seen, pods=tuple(_completed_pod(pod, layers, seen.at) for pod in seen.pods))


def _completed_pod(pod: SeenPod, layers: dict[str, Layer], at: Seconds) -> SeenPod:
    containers = []
    for container in pod.containers:
        layer = layers.get(container.id)
        if (container.usage is None or container.usage.cpu is None) and layer is not None:
            used = layer.working_set
            memory = None if used is None else MemoryUsage(usage=used, working_set=used, rss=used)
            usage = CgroupUsage(path=container.id, at=at, created=container.started, cpu=layer.cpu, memory=memory)
            container = replace(container, usage=usage)
        containers.append(container)
    return replace(pod, containers=tuple(containers))
