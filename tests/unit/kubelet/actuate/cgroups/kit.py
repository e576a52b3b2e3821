"""Pods, and a cgroup file system that refuses writes and tells of them, for tests of cgroups."""

import asyncio
from pathlib import Path

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import (
    NodePolicy,
    PodCgroupConfig,
    RootLimits,
)
from pykubelet.models.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import Quantity
from pykubelet.testing.cgroups import FakeCgroupFiles

POLICY = NodePolicy(memory_capacity=Bytes(8 << 30))
CONFIG = PodCgroupConfig(policy=POLICY, root_limits=RootLimits(cpu=MilliCPU(1500), memory=Bytes(7 << 30), pids=1000))


def pod(uid: str, requests: dict[str, Quantity] | None = None, limits: dict[str, Quantity] | None = None) -> Pod:
    resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="ns", uid=uid),
        spec=PodSpec(containers=(Container(name="c", resources=resources),)),
    )


BURSTABLE = pod("u-burst", {"cpu": "500m"})
GUARANTEED = pod("u-guar", {"cpu": "1", "memory": "1Mi"}, {"cpu": "1", "memory": "1Mi"})
BEST_EFFORT = pod("u-best")


class SignallingFiles(FakeCgroupFiles):
    """Lets a test wait for a write that a thread does."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.written = asyncio.Event()
        self.refused = asyncio.Event()
        self.refuse: Exception | None = None

    def write(self, path: Path, value: str) -> None:
        refuse = self.refuse  # the test may change it meanwhile
        if refuse is not None and "burstable" in str(path):
            if self.loop is not None:
                self.loop.call_soon_threadsafe(self.refused.set)
            raise refuse
        super().write(path, value)
        if self.loop is not None and path.name == "cpu.weight" and path.parent.name == "besteffort":
            self.loop.call_soon_threadsafe(self.written.set)

    def content(self, path: str) -> str:
        return (self.root / path).read_text()
