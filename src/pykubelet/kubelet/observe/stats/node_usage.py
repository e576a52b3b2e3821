"""`NodeUsage`: usage of the node, its pods and containers, measured on request; nothing is polled.

CPU and memory come from cgroups, or from the runtime for pods without one (for example with containers in virtual
machines); writable layers and image file systems come from the runtime, network counters from a process of the pod. A
reading is reused for ten seconds unless a client asks for a newer one, and concurrent requests share one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats import storage_usage
from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.kubelet.observe.stats.machine_reader import MachineReader
from pykubelet.kubelet.observe.stats.plan.scrape_rows import readings
from pykubelet.kubelet.observe.stats.plan.summary import Disk, PodFiles, summary
from pykubelet.kubelet.observe.stats.rates import CpuRates
from pykubelet.kubelet.observe.stats.snapshot import SnapshotReader
from pykubelet.kubelet.observe.stats.snapshot_types import Layer, PodSnapshot, Snapshot, Storage
from pykubelet.kubelet.observe.stats.stats_interfaces import StatsConfig, StatsDeps
from pykubelet.kubelet.observe.stats.volume_usage import DiskUsage
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.kubelet.types.resources.usage import CgroupUsage, MachineFacts, MemoryUsage, Readings

_FIRST_WINDOW: Seconds = 0.25
"""Time between the two readings for a CPU usage, if there is no earlier one."""
_YOUNGEST: Final[Seconds] = 1.0
"""Age from which on a client may ask for another reading, so that clients cannot keep the agent busy with them."""


class NodeUsage:
    """The measurement of usage. Figures of volumes and logs need a running ``run``."""

    def __init__(self, config: StatsConfig, deps: StatsDeps) -> None:
        self._config = config
        self._deps = deps
        cgroups = CgroupReader(config.layout)
        self._reader = MachineReader(layout=config.layout, cgroups=cgroups, runtime_endpoint=config.runtime_socket)
        self._cgroups = Guard("stats.cgroups", deps.clock.monotonic)
        self._snapshots = SnapshotReader(
            groups=config.groups,
            cgroups=cgroups,
            machine=self._reader,
            guard=Guard("stats.pods", deps.clock.monotonic),
        )
        self._rates = CpuRates()
        self._disk = DiskUsage(
            root_dir=config.root_dir,
            pod_logs_dir=config.pod_logs_dir,
            period=config.volume_period,
            clock=deps.clock,
            others=deps.volumes,
        )
        self._lock = asyncio.Lock()
        self._seen: Snapshot | None = None
        self._storage: tuple[Seconds, Storage] | None = None
        self._machine: MachineFacts | None = None

    def reconfigure(self, config: StatsConfig) -> None:
        """Measure the disk usage of pods with the period of these settings from now on; the rest of them stays."""
        self._disk.reconfigure(config.volume_period)

    async def run(self) -> None:
        """Measure the disk usage of pods on request, until cancelled."""
        await self._disk.run()

    async def cpu_and_memory(self, max_age: Seconds | None = None) -> Summary:
        """Return the Summary without volumes and file systems.

        A reading older than ``max_age`` (at least a second) is not reused; None: as in other answers.
        """
        return await self.summary(only_cpu_and_memory=True, max_age=max_age)

    async def summary(
        self, *, only_cpu_and_memory: bool = False, max_age: Seconds | None = None, rates: bool = True
    ) -> Summary:
        """Return the Summary of all pods with a running container.

        Without ``rates``, CPU usage that needs a second reading is left out, which saves a quarter of a second.
        """
        files = {} if only_cpu_and_memory else await self._files(rates=rates)
        async with self._lock:
            seen = await self._snapshot(full=False, rates=rates, max_age=max_age)
            disk = None if only_cpu_and_memory else Disk(await self._storages(), files=files)

            def rate(name: str, cpu_ns: int) -> int | None:
                return self._rates.usage(name, seen.monotonic, cpu_ns)

            found = summary(self._config.node_name, self._reader.booted, seen, disk, rate)
            self._rates.keep_only(usage.path for usage in _usages(seen))
            return found

    async def _files(self, *, rates: bool) -> Mapping[PodUID, PodFiles]:
        """Return the disk usage of pods. It may take long, so the lock is not held meanwhile."""
        async with self._lock:
            seen = await self._snapshot(full=False, rates=rates)
        return await self._disk.of(pod.pod for pod in seen.pods)

    async def readings(self, *, full: bool = True) -> Readings:
        """Return the readings of a scrape; ``full``: with limits, I/O, processes and file systems."""
        async with self._lock:
            seen = await self._snapshot(full=full, rates=False)
            stored = await self._storages() if full else Storage()
            if self._machine is None:
                self._machine = await blocking.call("stats", self._reader.describe)
            return readings(self._machine, seen, stored)

    async def _snapshot(self, *, full: bool, rates: bool, max_age: Seconds | None = None) -> Snapshot:
        clock = self._deps.clock
        last = self._seen
        usual = self._config.fresh_for
        fresh_for = usual if max_age is None else min(usual, max(_YOUNGEST, max_age))
        if last is not None and self._is_fresh(last, fresh_for, full=full, rates=rates):
            return last
        pods = []
        for pod in self._deps.pods():
            with self._cgroups.item(pod.metadata.uid):
                pods.append((pod, self._deps.pod_cgroup(pod)))
        if rates:
            await self._prepare_rates([path for _, path in pods if path])
        moment = (clock.now(), clock.monotonic())
        seen = await blocking.call("stats", self._snapshots.take, pods, moment, full)
        if any(c.usage is None or c.usage.cpu is None for pod in seen.pods for c in pod.containers):
            seen = _with_runtime_figures(seen, await storage_usage.layers(self._deps.cri))
        self._seen = seen
        return seen

    def _is_fresh(self, last: Snapshot, fresh_for: Seconds, *, full: bool, rates: bool) -> bool:
        now = self._deps.clock.monotonic()
        if now - last.monotonic >= fresh_for or last.full < full:
            return False
        return not rates or not self._rates.stale((usage.path for usage in _usages(last)), now)

    async def _prepare_rates(self, pod_paths: Iterable[str]) -> None:
        """Take a first reading of cgroups without one, and wait long enough for a second one."""
        found = await blocking.call("stats", self._snapshots.cpu_times, list(pod_paths))
        now = self._deps.clock.monotonic()
        fresh = self._rates.stale(found, now)
        for name in fresh:
            self._rates.usage(name, now, found[name])
        if fresh:
            await self._deps.clock.sleep(_FIRST_WINDOW)

    async def _storages(self) -> Storage:
        now = self._deps.clock.monotonic()
        if self._storage is None or now - self._storage[0] >= self._config.fresh_for:
            found = await storage_usage.storage(self._config.root_dir, self._deps.cri, self._deps.image_cri)
            self._storage = (now, found)
        return self._storage[1]


def _usages(seen: Snapshot) -> Iterable[CgroupUsage]:
    """Yield the cgroups whose CPU rate the Summary API shows; of the QoS cgroups, only their parent."""
    yield seen.machine
    yield from seen.groups[:1]
    yield from (daemon.usage for daemon in seen.daemons)
    for pod in seen.pods:
        yield from (usage for usage in (pod.usage, *(c.usage for c in pod.containers)) if usage is not None)


def _with_runtime_figures(seen: Snapshot, layers: dict[str, Layer]) -> Snapshot:
    """Return the snapshot with the runtime's figures for containers whose cgroup cannot be read."""
    return replace(seen, pods=tuple(_pod_with_runtime_figures(pod, layers, seen.at) for pod in seen.pods))


def _pod_with_runtime_figures(pod: PodSnapshot, layers: dict[str, Layer], at: Seconds) -> PodSnapshot:
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
