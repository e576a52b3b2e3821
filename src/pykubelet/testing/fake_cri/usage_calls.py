"""The fake runtime's CRI calls about usage and metrics; the values are derived from the scripts."""

from collections.abc import AsyncGenerator

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri.router import Router
from pykubelet.testing.fake_cri.state import FakeContainer, FakeSandbox, has_labels, nanoseconds
from pykubelet.testing.fake_cri.world import World

_CPU_METRIC = "container_cpu_usage_seconds_total"


class UsageHandlers:
    """The CRI calls about stats and metrics."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        router.serve(calls.CONTAINER_STATS, self._container_stats)
        router.serve(calls.LIST_CONTAINER_STATS, self._list_container_stats)
        router.serve_stream(calls.STREAM_CONTAINER_STATS, self._stream_container_stats)
        router.serve(calls.POD_SANDBOX_STATS, self._pod_sandbox_stats)
        router.serve(calls.LIST_POD_SANDBOX_STATS, self._list_pod_sandbox_stats)
        router.serve_stream(calls.STREAM_POD_SANDBOX_STATS, self._stream_pod_sandbox_stats)
        router.serve(calls.LIST_METRIC_DESCRIPTORS, self._list_descriptors)
        router.serve(calls.LIST_POD_SANDBOX_METRICS, self._list_metrics)
        router.serve_stream(calls.STREAM_POD_SANDBOX_METRICS, self._stream_metrics)

    def _container_stats(self, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
        return pb.ContainerStatsResponse(stats=self._usage(self._world.container(request.container_id)))

    def _select_containers(self, filter: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        return [
            self._usage(container)
            for container in self._world.containers.values()
            if container.running
            and filter.id in ("", container.id)
            and filter.pod_sandbox_id in ("", container.sandbox.id)
            and has_labels(container.config.labels, filter.label_selector)
        ]

    def _list_container_stats(self, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
        return pb.ListContainerStatsResponse(stats=self._select_containers(request.filter))

    async def _stream_container_stats(
        self, request: pb.StreamContainerStatsRequest
    ) -> AsyncGenerator[pb.StreamContainerStatsResponse, None]:
        for stats in self._select_containers(request.filter):
            yield pb.StreamContainerStatsResponse(container_stats=[stats])

    def _pod_sandbox_stats(self, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
        return pb.PodSandboxStatsResponse(stats=self._pod_usage(self._world.sandbox(request.pod_sandbox_id)))

    def _select_sandboxes(self, filter: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        return [
            self._pod_usage(sandbox)
            for sandbox in self._world.sandboxes.values()
            if sandbox.ready
            and filter.id in ("", sandbox.id)
            and has_labels(sandbox.config.labels, filter.label_selector)
        ]

    def _list_pod_sandbox_stats(self, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
        return pb.ListPodSandboxStatsResponse(stats=self._select_sandboxes(request.filter))

    async def _stream_pod_sandbox_stats(
        self, request: pb.StreamPodSandboxStatsRequest
    ) -> AsyncGenerator[pb.StreamPodSandboxStatsResponse, None]:
        for stats in self._select_sandboxes(request.filter):
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=[stats])

    def _list_descriptors(self, request: pb.ListMetricDescriptorsRequest) -> pb.ListMetricDescriptorsResponse:
        descriptor = pb.MetricDescriptor(name=_CPU_METRIC, help="CPU time in seconds", label_keys=["id"])
        return pb.ListMetricDescriptorsResponse(descriptors=[descriptor])

    def _list_metrics(self, request: pb.ListPodSandboxMetricsRequest) -> pb.ListPodSandboxMetricsResponse:
        metrics = [self._metrics(sandbox) for sandbox in self._world.sandboxes.values()]
        return pb.ListPodSandboxMetricsResponse(pod_metrics=metrics)

    async def _stream_metrics(
        self, request: pb.StreamPodSandboxMetricsRequest
    ) -> AsyncGenerator[pb.StreamPodSandboxMetricsResponse, None]:
        for sandbox in self._world.sandboxes.values():
            yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=[self._metrics(sandbox)])

    def _cpu_nanoseconds(self, container: FakeContainer) -> int:
        if not container.started_at:
            return 0
        until = container.finished_at or nanoseconds(self._world.clock)
        return int((until - container.started_at) * container.script.cpu_cores)

    def _usage(self, container: FakeContainer) -> pb.ContainerStats:
        now = nanoseconds(self._world.clock)
        cores = container.script.cpu_cores if container.running else 0.0
        memory = container.script.memory_bytes if container.running else 0
        return pb.ContainerStats(
            attributes=pb.ContainerAttributes(
                id=container.id,
                metadata=container.config.metadata,
                labels=container.config.labels,
                annotations=container.config.annotations,
            ),
            cpu=_cpu(now, self._cpu_nanoseconds(container), cores),
            memory=_memory(now, memory),
            writable_layer=pb.FilesystemUsage(
                timestamp=now, used_bytes=pb.UInt64Value(value=4096), inodes_used=pb.UInt64Value(value=1)
            ),
        )

    def _pod_usage(self, sandbox: FakeSandbox) -> pb.PodSandboxStats:
        now = nanoseconds(self._world.clock)
        containers = self._world.containers_of(sandbox)
        running = [container for container in containers if container.running]
        total_cpu = sum(self._cpu_nanoseconds(container) for container in containers)
        return pb.PodSandboxStats(
            attributes=pb.PodSandboxAttributes(
                id=sandbox.id,
                metadata=sandbox.config.metadata,
                labels=sandbox.config.labels,
                annotations=sandbox.config.annotations,
            ),
            linux=pb.LinuxPodSandboxStats(
                cpu=_cpu(now, total_cpu, sum(container.script.cpu_cores for container in running)),
                memory=_memory(now, sum(container.script.memory_bytes for container in running)),
                process=pb.ProcessUsage(timestamp=now, process_count=pb.UInt64Value(value=1 + len(running))),
                containers=[self._usage(container) for container in running],
            ),
        )

    def _metrics(self, sandbox: FakeSandbox) -> pb.PodSandboxMetrics:
        return pb.PodSandboxMetrics(
            pod_sandbox_id=sandbox.id,
            container_metrics=[
                pb.ContainerMetrics(
                    container_id=container.id,
                    metrics=[
                        pb.Metric(
                            name=_CPU_METRIC,
                            metric_type=pb.COUNTER,
                            label_values=[container.id],
                            value=pb.UInt64Value(value=self._cpu_nanoseconds(container) // 10**9),
                        )
                    ],
                )
                for container in self._world.containers_of(sandbox)
            ],
        )


def _cpu(now: int, nanoseconds_used: int, cores: float) -> pb.CpuUsage:
    return pb.CpuUsage(
        timestamp=now,
        usage_core_nano_seconds=pb.UInt64Value(value=nanoseconds_used),
        usage_nano_cores=pb.UInt64Value(value=int(cores * 1e9)),
    )


def _memory(now: int, size: int) -> pb.MemoryUsage:
    value = pb.UInt64Value(value=size)
    return pb.MemoryUsage(timestamp=now, working_set_bytes=value, usage_bytes=value, rss_bytes=value)
