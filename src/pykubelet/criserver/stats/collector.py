"""Measures the resource usage of containers and pods: cgroups, writable layers and network counters."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.criserver.config.host_facts import kernel_cgroup
from pykubelet.criserver.container import Container
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.stats.plan.counters import Sample, rate
from pykubelet.criserver.stats.stats_interfaces import Layers, LayerUsage
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import CgroupDriver, CgroupStats
from pykubelet.linux.namespaces import Namespace, call_in
from pykubelet.linux.procparse import NetDevice

_EMPTY = CgroupStats()
_RESPONDING: Seconds = 10.0
"""Deadline for reading a cgroup or the counters of a network, which take longer only if the kernel hangs."""
_KEPT = 1_000_000_000
"""Shortest time between two CPU samples in nanoseconds: rates over shorter times are noise."""
_MOST_INTERFACES = 64
"""Of one pod, which may make any number of them with CAP_NET_ADMIN."""


class ContainerUsage(Struct, frozen=True):
    """The usage of one container.

    ``at`` is in nanoseconds since the epoch; ``cores_ns`` is CPU time per second, None before two samples.
    """

    at: int
    cgroup: CgroupStats
    cores_ns: int | None
    layer: LayerUsage | None


class PodUsage(Struct, frozen=True):
    """The usage of one pod: its cgroup and its network."""

    at: int
    cgroup: CgroupStats
    cores_ns: int | None
    interfaces: tuple[NetDevice, ...]


class StatsCollector:
    """Measures usage on request. Samples of CPU time are kept by cgroup, to compute rates."""

    def __init__(self, *, cgroups: CgroupDriver, layers: Layers, clock: Clock) -> None:
        self._cgroups = cgroups
        self._layers = layers
        self._clock = clock
        self._samples: dict[str, tuple[Sample | None, Sample]] = {}

    async def container(self, container: Container) -> ContainerUsage:
        """Measure the usage of a container; zeros if it does not run."""
        cgroup = await self._measure(container.record.cgroup) if container.running else _EMPTY
        layer = await self._layers.usage(container.id)
        at = self._now()
        return ContainerUsage(at, cgroup, self._rate(container.record.cgroup, at, cgroup), layer)

    async def pod(self, sandbox: Sandbox, netns: Path | None) -> PodUsage:
        """Measure the usage of a whole pod."""
        path = sandbox.config.linux.cgroup_parent
        cgroup = await self._measure(path) if path else _EMPTY
        interfaces = await self.interfaces(sandbox, netns)
        at = self._now()
        return PodUsage(at, cgroup, self._rate(path, at, cgroup), interfaces)

    async def interfaces(self, sandbox: Sandbox, netns: Path | None) -> tuple[NetDevice, ...]:
        """Read the network devices of a pod; none if it uses the node's network."""
        if netns is None or not sandbox.ready:
            return ()
        return await blocking.call(f"stats/{sandbox.id}", _interfaces, str(netns), deadline=_RESPONDING)

    async def _measure(self, path: str) -> CgroupStats:
        return await blocking.call(f"stats/{path}", self._read, path, deadline=_RESPONDING)

    def keep_only(self, cgroups: Iterable[str]) -> None:
        """Drop the samples of all other cgroups."""
        kept = set(cgroups)
        self._samples = {path: samples for path, samples in self._samples.items() if path in kept}

    def _rate(self, path: str, at: int, cgroup: CgroupStats) -> int | None:
        if cgroup.cpu_usage_ns is None:
            return None
        now = Sample(at, cgroup.cpu_usage_ns)
        older, last = self._samples.get(path, (None, None))
        if last is None:
            self._samples[path] = (None, now)
            return None
        if now.at - last.at >= _KEPT:
            self._samples[path] = (last, now)
            return rate(last, now)
        return rate(older, now)

    def _read(self, path: str) -> CgroupStats:
        try:
            return self._cgroups.stats(kernel_cgroup(path))
        except NotFound:
            return _EMPTY

    def _now(self) -> int:
        return int(self._clock.now() * 1e9)


def _interfaces(netns: str) -> tuple[NetDevice, ...]:
    try:
        devices = call_in(netns, Namespace.NET, lambda: procfs.network_devices("thread-self"))
    except (PykubeletError, OSError):
        return ()  # the network was removed meanwhile
    found = (device for device in devices if device.name != "lo")
    return tuple(sorted(found, key=lambda each: each.name != "eth0")[:_MOST_INTERFACES])
