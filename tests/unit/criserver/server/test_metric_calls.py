"""Lists of metrics: one container or pod that cannot be measured does not affect others."""

from types import SimpleNamespace
from typing import Any, cast

from pykubelet.base.errors import Transient
from pykubelet.criserver.server.cri_calls.metrics import MetricCalls
from pykubelet.criserver.stats.metrics import ContainerFacts
from pykubelet.criserver.stats.processes import ProcessUse
from pykubelet.linux.cgroups import CgroupStats
from pykubelet.linux.cgroups.counters import CgroupCounters
from pykubelet.linux.procparse import NetDevice
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock


class Inspector:
    async def look(self, container: Any) -> ContainerFacts:
        if container.id == "hangs":
            raise Transient("its cgroup is not responding")
        return ContainerFacts(
            now=1,
            started_at=1,
            stats=CgroupStats(),
            counters=CgroupCounters(),
            processes=ProcessUse(),
            resources=pb.LinuxContainerResources(),
            disk=None,
        )


class Collector:
    async def interfaces(self, sandbox: Any, netns: object) -> tuple[NetDevice, ...]:
        if sandbox.id == "broken":
            raise Transient("its network namespace is not responding")
        return ()


def _container(identity: str) -> Any:
    return SimpleNamespace(
        id=identity,
        running=True,
        config=pb.ContainerConfig(),
        record=SimpleNamespace(cgroup=f"/{identity}", image_id=""),
    )


def _sandbox(identity: str) -> Any:
    return SimpleNamespace(id=identity, ready=True, config=pb.PodSandboxConfig())


def _calls() -> MetricCalls:
    pods = {"first": ("one", "hangs"), "broken": ("two",), "last": ("three",)}
    sandboxes = SimpleNamespace(
        table=SimpleNamespace(visible=lambda: map(_sandbox, pods)), layout=SimpleNamespace(netns=lambda _: None)
    )
    containers = SimpleNamespace(table=SimpleNamespace(of_sandbox=lambda pod: list(map(_container, pods[pod]))))
    return MetricCalls(
        inspector=cast(Any, Inspector()),
        collector=cast(Any, Collector()),
        containers=cast(Any, containers),
        sandboxes=cast(Any, sandboxes),
        clock=VirtualClock(),
    )


async def test_container_or_pod_that_cannot_be_measured_is_left_out_of_the_metrics() -> None:
    listed = await _calls().listed(pb.ListPodSandboxMetricsRequest())
    found = {pod.pod_sandbox_id: [each.container_id for each in pod.container_metrics] for pod in listed.pod_metrics}
    assert found == {"first": ["one"], "last": ["three"]}
    pieces = [
        pod async for piece in _calls().stream(pb.StreamPodSandboxMetricsRequest()) for pod in piece.pod_sandbox_metrics
    ]
    assert [pod.pod_sandbox_id for pod in pieces] == ["first", "last"]
