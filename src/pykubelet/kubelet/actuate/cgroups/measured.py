"""Cgroup driver that measures its operations; called from threads, like the driver itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.base.clock import Clock
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.linux.cgroups import CgroupDriver, CgroupResources
from pykubelet.linux.cgroups.cgroup_types import CgroupStats


class MeasuredCgroups:
    """Wraps a cgroup driver and measures create, update and destroy."""

    def __init__(self, *, driver: CgroupDriver, meter: WorkMeter, clock: Clock) -> None:
        self._driver = driver
        self._meter = meter
        self._clock = clock

    @property
    def version(self) -> int:
        return self._driver.version

    def create(self, path: str, resources: CgroupResources) -> None:
        with self._measured("create"):
            self._driver.create(path, resources)

    def update(self, path: str, resources: CgroupResources) -> None:
        with self._measured("update"):
            self._driver.update(path, resources)

    def delete(self, path: str) -> None:
        with self._measured("destroy"):
            self._driver.delete(path)

    def kill(self, path: str) -> None:
        self._driver.kill(path)

    def exists(self, path: str) -> bool:
        return self._driver.exists(path)

    def children(self, path: str) -> frozenset[str]:
        return self._driver.children(path)

    def stats(self, path: str) -> CgroupStats:
        return self._driver.stats(path)

    def limits(self, path: str) -> CgroupResources:
        return self._driver.limits(path)

    def procs(self, path: str) -> frozenset[int]:
        return self._driver.procs(path)

    @contextmanager
    def _measured(self, operation: str) -> Iterator[None]:
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._meter.cgroup_operation(operation, self._clock.monotonic() - begun)
