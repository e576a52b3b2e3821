"""Calls about metrics: the source of a kubelet's /metrics/cadvisor with PodAndContainerStatsFromCRI."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.criserver.config.host_facts import kernel_cgroup
from pykubelet.criserver.container import Container, ContainerComponents
from pykubelet.criserver.sandbox import Sandbox, SandboxComponents
from pykubelet.criserver.server import view
from pykubelet.criserver.server.call_table import Calls, chunks
from pykubelet.criserver.stats import StatsCollector
from pykubelet.criserver.stats.inspector import Inspector
from pykubelet.criserver.stats.metrics import container_metrics, descriptors, pod_metrics
from pykubelet.pb import runtime_v1_pb2 as pb

_Thing = TypeVar("_Thing", Container, Sandbox)
_Metrics = TypeVar("_Metrics")


class MetricCalls:
    """ListMetricDescriptors, ListPodSandboxMetrics, StreamPodSandboxMetrics."""

    def __init__(
        self,
        *,
        inspector: Inspector,
        collector: StatsCollector,
        containers: ContainerComponents,
        sandboxes: SandboxComponents,
        clock: Clock,
    ) -> None:
        self._inspector = inspector
        self._collector = collector
        self._containers = containers
        self._sandboxes = sandboxes
        self._guard = Guard("metrics.measured", clock.monotonic)

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("ListMetricDescriptors", pb.ListMetricDescriptorsRequest, self.descriptors)
        calls.unary("ListPodSandboxMetrics", pb.ListPodSandboxMetricsRequest, self.listed)
        calls.stream("StreamPodSandboxMetrics", pb.StreamPodSandboxMetricsRequest, self.stream)

    async def descriptors(self, request: pb.ListMetricDescriptorsRequest) -> pb.ListMetricDescriptorsResponse:
        """Return the descriptors of all metrics."""
        return pb.ListMetricDescriptorsResponse(descriptors=descriptors())

    async def listed(self, request: pb.ListPodSandboxMetricsRequest) -> pb.ListPodSandboxMetricsResponse:
        """Return the metrics of all ready pods."""
        return pb.ListPodSandboxMetricsResponse(pod_metrics=await self._all())

    async def stream(
        self, request: pb.StreamPodSandboxMetricsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxMetricsResponse]:
        """Stream the list of metrics of all ready pods in chunks."""
        for piece in chunks(await self._all()):
            yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=piece)

    async def _all(self) -> list[pb.PodSandboxMetrics]:
        ready = [each for each in self._sandboxes.table.visible() if each.ready]
        return await self._each(self._of_pod, ready)

    async def _each(self, measure: Callable[[_Thing], Awaitable[_Metrics]], things: Iterable[_Thing]) -> list[_Metrics]:
        """Measure all concurrently; a failure (its cgroup hangs, say) omits only that one."""

        async def take(thing: _Thing) -> _Metrics | None:
            with self._guard.item(thing.id):
                return await measure(thing)
            return None

        found = await asyncio.gather(*map(take, things))
        return [each for each in found if each is not None]

    async def _of_pod(self, sandbox: Sandbox) -> pb.PodSandboxMetrics:
        interfaces = await self._collector.interfaces(sandbox, self._sandboxes.layout.netns(sandbox))
        running = [each for each in self._containers.table.of_sandbox(sandbox.id) if each.running]
        metadata = sandbox.config.metadata
        labels = (
            "",
            kernel_cgroup(sandbox.config.linux.cgroup_parent),
            "",
            sandbox.id,
            metadata.namespace,
            metadata.name,
        )
        return pb.PodSandboxMetrics(
            pod_sandbox_id=sandbox.id,
            metrics=pod_metrics(labels, interfaces),
            container_metrics=await self._each(lambda each: self._of(each, sandbox), running),
        )

    async def _of(self, container: Container, sandbox: Sandbox) -> pb.ContainerMetrics:
        config, pod = container.config, sandbox.config.metadata
        labels = (
            config.metadata.name,
            kernel_cgroup(container.record.cgroup),
            view.image_name(container),
            container.id,
            pod.namespace,
            pod.name,
        )
        facts = await self._inspector.look(container)
        # In a thread: a hundred containers would block the event loop for 100 ms.
        metrics = await blocking.call("metrics", container_metrics, labels, facts)
        return pb.ContainerMetrics(container_id=container.id, metrics=metrics)
