"""The 41 calls of CRI v1: request and reply types, and the operation name in the agent's metrics.

``LIST_PULLS`` is a call of pykubelet's own runtime server.

A `Stream…` call returns the same as its `List…` counterpart and has the same operation name.
"""

from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import runtime_v1_pb2 as pb

_RUNTIME = "runtime.v1.RuntimeService"
_IMAGES = "runtime.v1.ImageService"

VERSION = UnaryCall(_RUNTIME, "Version", "version", pb.VersionRequest, pb.VersionResponse)
STATUS = UnaryCall(_RUNTIME, "Status", "status", pb.StatusRequest, pb.StatusResponse)
RUNTIME_CONFIG = UnaryCall(
    _RUNTIME, "RuntimeConfig", "runtime_config", pb.RuntimeConfigRequest, pb.RuntimeConfigResponse
)
UPDATE_RUNTIME_CONFIG = UnaryCall(
    _RUNTIME,
    "UpdateRuntimeConfig",
    "update_runtime_config",
    pb.UpdateRuntimeConfigRequest,
    pb.UpdateRuntimeConfigResponse,
)
RUN_POD_SANDBOX = UnaryCall(
    _RUNTIME, "RunPodSandbox", "run_podsandbox", pb.RunPodSandboxRequest, pb.RunPodSandboxResponse
)
STOP_POD_SANDBOX = UnaryCall(
    _RUNTIME, "StopPodSandbox", "stop_podsandbox", pb.StopPodSandboxRequest, pb.StopPodSandboxResponse
)
REMOVE_POD_SANDBOX = UnaryCall(
    _RUNTIME, "RemovePodSandbox", "remove_podsandbox", pb.RemovePodSandboxRequest, pb.RemovePodSandboxResponse
)
POD_SANDBOX_STATUS = UnaryCall(
    _RUNTIME, "PodSandboxStatus", "podsandbox_status", pb.PodSandboxStatusRequest, pb.PodSandboxStatusResponse
)
LIST_POD_SANDBOX = UnaryCall(
    _RUNTIME, "ListPodSandbox", "list_podsandbox", pb.ListPodSandboxRequest, pb.ListPodSandboxResponse
)
STREAM_POD_SANDBOXES = StreamCall(
    _RUNTIME,
    "StreamPodSandboxes",
    "list_podsandbox",
    pb.StreamPodSandboxesRequest,
    pb.StreamPodSandboxesResponse,
)
UPDATE_POD_SANDBOX_RESOURCES = UnaryCall(
    _RUNTIME,
    "UpdatePodSandboxResources",
    "update_podsandbox_resources",
    pb.UpdatePodSandboxResourcesRequest,
    pb.UpdatePodSandboxResourcesResponse,
)
CREATE_CONTAINER = UnaryCall(
    _RUNTIME, "CreateContainer", "create_container", pb.CreateContainerRequest, pb.CreateContainerResponse
)
START_CONTAINER = UnaryCall(
    _RUNTIME, "StartContainer", "start_container", pb.StartContainerRequest, pb.StartContainerResponse
)
STOP_CONTAINER = UnaryCall(
    _RUNTIME, "StopContainer", "stop_container", pb.StopContainerRequest, pb.StopContainerResponse
)
REMOVE_CONTAINER = UnaryCall(
    _RUNTIME, "RemoveContainer", "remove_container", pb.RemoveContainerRequest, pb.RemoveContainerResponse
)
LIST_CONTAINERS = UnaryCall(
    _RUNTIME, "ListContainers", "list_containers", pb.ListContainersRequest, pb.ListContainersResponse
)
STREAM_CONTAINERS = StreamCall(
    _RUNTIME, "StreamContainers", "list_containers", pb.StreamContainersRequest, pb.StreamContainersResponse
)
CONTAINER_STATUS = UnaryCall(
    _RUNTIME, "ContainerStatus", "container_status", pb.ContainerStatusRequest, pb.ContainerStatusResponse
)
UPDATE_CONTAINER_RESOURCES = UnaryCall(
    _RUNTIME,
    "UpdateContainerResources",
    "update_container",
    pb.UpdateContainerResourcesRequest,
    pb.UpdateContainerResourcesResponse,
)
REOPEN_CONTAINER_LOG = UnaryCall(
    _RUNTIME,
    "ReopenContainerLog",
    "reopen_container_log",
    pb.ReopenContainerLogRequest,
    pb.ReopenContainerLogResponse,
)
CHECKPOINT_CONTAINER = UnaryCall(
    _RUNTIME,
    "CheckpointContainer",
    "checkpoint_container",
    pb.CheckpointContainerRequest,
    pb.CheckpointContainerResponse,
)
EXEC_SYNC = UnaryCall(_RUNTIME, "ExecSync", "exec_sync", pb.ExecSyncRequest, pb.ExecSyncResponse)
EXEC = UnaryCall(_RUNTIME, "Exec", "exec", pb.ExecRequest, pb.ExecResponse)
ATTACH = UnaryCall(_RUNTIME, "Attach", "attach", pb.AttachRequest, pb.AttachResponse)
PORT_FORWARD = UnaryCall(_RUNTIME, "PortForward", "port_forward", pb.PortForwardRequest, pb.PortForwardResponse)
CONTAINER_STATS = UnaryCall(
    _RUNTIME, "ContainerStats", "container_stats", pb.ContainerStatsRequest, pb.ContainerStatsResponse
)
LIST_CONTAINER_STATS = UnaryCall(
    _RUNTIME,
    "ListContainerStats",
    "list_container_stats",
    pb.ListContainerStatsRequest,
    pb.ListContainerStatsResponse,
)
STREAM_CONTAINER_STATS = StreamCall(
    _RUNTIME,
    "StreamContainerStats",
    "list_container_stats",
    pb.StreamContainerStatsRequest,
    pb.StreamContainerStatsResponse,
)
POD_SANDBOX_STATS = UnaryCall(
    _RUNTIME, "PodSandboxStats", "podsandbox_stats", pb.PodSandboxStatsRequest, pb.PodSandboxStatsResponse
)
LIST_POD_SANDBOX_STATS = UnaryCall(
    _RUNTIME,
    "ListPodSandboxStats",
    "list_podsandbox_stats",
    pb.ListPodSandboxStatsRequest,
    pb.ListPodSandboxStatsResponse,
)
STREAM_POD_SANDBOX_STATS = StreamCall(
    _RUNTIME,
    "StreamPodSandboxStats",
    "list_podsandbox_stats",
    pb.StreamPodSandboxStatsRequest,
    pb.StreamPodSandboxStatsResponse,
)
LIST_METRIC_DESCRIPTORS = UnaryCall(
    _RUNTIME,
    "ListMetricDescriptors",
    "list_metric_descriptors",
    pb.ListMetricDescriptorsRequest,
    pb.ListMetricDescriptorsResponse,
)
LIST_POD_SANDBOX_METRICS = UnaryCall(
    _RUNTIME,
    "ListPodSandboxMetrics",
    "list_podsandbox_metrics",
    pb.ListPodSandboxMetricsRequest,
    pb.ListPodSandboxMetricsResponse,
)
STREAM_POD_SANDBOX_METRICS = StreamCall(
    _RUNTIME,
    "StreamPodSandboxMetrics",
    "list_podsandbox_metrics",
    pb.StreamPodSandboxMetricsRequest,
    pb.StreamPodSandboxMetricsResponse,
)
GET_CONTAINER_EVENTS = StreamCall(
    _RUNTIME, "GetContainerEvents", "get_container_events", pb.GetEventsRequest, pb.ContainerEventResponse
)

LIST_IMAGES = UnaryCall(_IMAGES, "ListImages", "list_images", pb.ListImagesRequest, pb.ListImagesResponse)
STREAM_IMAGES = StreamCall(_IMAGES, "StreamImages", "list_images", pb.StreamImagesRequest, pb.StreamImagesResponse)
IMAGE_STATUS = UnaryCall(_IMAGES, "ImageStatus", "image_status", pb.ImageStatusRequest, pb.ImageStatusResponse)
PULL_IMAGE = UnaryCall(_IMAGES, "PullImage", "pull_image", pb.PullImageRequest, pb.PullImageResponse)
REMOVE_IMAGE = UnaryCall(_IMAGES, "RemoveImage", "remove_image", pb.RemoveImageRequest, pb.RemoveImageResponse)
IMAGE_FS_INFO = UnaryCall(_IMAGES, "ImageFsInfo", "image_fs_info", pb.ImageFsInfoRequest, pb.ImageFsInfoResponse)

LIST_PULLS = UnaryCall(
    "pykubelet.images.v1.ImageTransfer",
    "ListPulls",
    "list_pulls",
    transfer.ListPullsRequest,
    transfer.ListPullsReply,
)
"""Other runtimes answer UNIMPLEMENTED."""
