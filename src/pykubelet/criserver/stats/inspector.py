"""Measures all figures of a container that metrics need, on request."""

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.criserver.config.host_facts import kernel_cgroup
from pykubelet.criserver.container import Container
from pykubelet.criserver.stats.metrics import ContainerFacts, Disk
from pykubelet.criserver.stats.processes import measure
from pykubelet.criserver.stats.stats_interfaces import Layers, LayerUsage
from pykubelet.linux.cgroups import CgroupDriver, CgroupStats
from pykubelet.linux.cgroups.counters import CgroupCounterReader
from pykubelet.linux.filesystems.fsusage import filesystem

_RESPONDING: Seconds = 10.0
"""Deadline for one container, for which the answer about all others waits; only a hostile one takes that long."""


class Inspector:
    """Measures containers from cgroups, /proc and the file system of the writable layers."""

    def __init__(
        self, *, cgroups: CgroupDriver, counter_reader: CgroupCounterReader, layers: Layers, clock: Clock
    ) -> None:
        self._cgroups = cgroups
        self._counters = counter_reader
        self._layers = layers
        self._clock = clock

    async def look(self, container: Container) -> ContainerFacts:
        """Measure a running container; figures that cannot be read are zero or left out."""
        layer = await self._layers.usage(container.id)
        return await blocking.call(f"stats/{container.id}", self._look, container, layer, deadline=_RESPONDING)

    def _look(self, container: Container, layer: LayerUsage | None) -> ContainerFacts:
        record = container.record
        cgroup = kernel_cgroup(record.cgroup)
        try:
            stats, pids = self._cgroups.stats(cgroup), self._cgroups.procs(cgroup)
        except NotFound:
            stats, pids = CgroupStats(), frozenset()
        return ContainerFacts(
            now=int(self._clock.now() * 1e9),
            started_at=record.started_at,
            stats=stats,
            counters=self._counters.read(cgroup),
            processes=measure(record.process.pid if record.process else 0, pids),
            resources=container.config.linux.resources,
            disk=None if layer is None else _disk(layer),
        )


def _disk(layer: LayerUsage) -> Disk | None:
    try:
        return Disk(layer.mountpoint, layer.used, filesystem(layer.mountpoint))
    except PykubeletError:
        return None
