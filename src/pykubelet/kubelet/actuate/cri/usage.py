"""CRI calls about the usage and the metrics of containers and sandboxes."""

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.caller import Caller
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb


class UsageCalls(Caller):
    """Usage and metrics calls of `CriClient`. All methods raise `CriError` and its base classes in `base.errors`."""

    async def container_stats(self, container: ContainerID) -> pb.ContainerStats:
        """Usage of one container."""
        request = pb.ContainerStatsRequest(container_id=container)
        return (await self._call(calls.CONTAINER_STATS, request, container)).stats

    async def list_container_stats(self, filter: pb.ContainerStatsFilter | None = None) -> list[pb.ContainerStats]:
        """Usage of the running containers that match the filter."""
        parts = await self._parts(calls.STREAM_CONTAINER_STATS, pb.StreamContainerStatsRequest(filter=filter))
        if parts is not None:
            return [stats for part in parts for stats in part.container_stats]
        reply = await self._call(calls.LIST_CONTAINER_STATS, pb.ListContainerStatsRequest(filter=filter))
        return list(reply.stats)

    async def pod_sandbox_stats(self, sandbox: SandboxID) -> pb.PodSandboxStats:
        """Usage of one sandbox and its containers."""
        request = pb.PodSandboxStatsRequest(pod_sandbox_id=sandbox)
        return (await self._call(calls.POD_SANDBOX_STATS, request, sandbox)).stats

    async def list_pod_sandbox_stats(self, filter: pb.PodSandboxStatsFilter | None = None) -> list[pb.PodSandboxStats]:
        """Usage of the ready sandboxes that match the filter."""
        parts = await self._parts(calls.STREAM_POD_SANDBOX_STATS, pb.StreamPodSandboxStatsRequest(filter=filter))
        if parts is not None:
            return [stats for part in parts for stats in part.pod_sandbox_stats]
        reply = await self._call(calls.LIST_POD_SANDBOX_STATS, pb.ListPodSandboxStatsRequest(filter=filter))
        return list(reply.stats)

    async def list_metric_descriptors(self) -> list[pb.MetricDescriptor]:
        """Descriptors of the metrics of `list_pod_sandbox_metrics`. Raises `Unsupported` in older runtimes."""
        reply = await self._call(calls.LIST_METRIC_DESCRIPTORS, pb.ListMetricDescriptorsRequest())
        return list(reply.descriptors)

    async def list_pod_sandbox_metrics(self) -> list[pb.PodSandboxMetrics]:
        """The runtime's own metrics of every sandbox. Raises `Unsupported` in older runtimes."""
        parts = await self._parts(calls.STREAM_POD_SANDBOX_METRICS, pb.StreamPodSandboxMetricsRequest())
        if parts is not None:
            return [metrics for part in parts for metrics in part.pod_sandbox_metrics]
        reply = await self._call(calls.LIST_POD_SANDBOX_METRICS, pb.ListPodSandboxMetricsRequest())
        return list(reply.pod_metrics)
