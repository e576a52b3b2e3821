"""Kubernetes events as the stages record them. Reasons are those of the Go kubelet (``pkg/kubelet/events``)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from pykubelet.kubelet.types.ids import PodRef

NORMAL = "Normal"
WARNING = "Warning"
SUCCESSFULLY_PULLED: Final = "Successfully pulled image"
"""The beginning of the message of `Reason.PULLED_IMAGE` after a pull; that of an image that was there has another."""
NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})


class EventRecorder(Protocol):
    """The recorder of events of all stages; never blocks and never fails.

    ``container`` names the container concerned; the recorder turns it into the event's field path
    (``spec.containers{NAME}``, ``spec.initContainers{NAME}`` …).
    """

    def event(
        self,
        pod: PodRef | None,
        event_type: str,
        reason: str,
        message: str,
        *,
        container: str = "",
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        """Record an event of a pod, or of the node if ``pod`` is None; ``annotations``: of the event's object."""


class Reason:
    """Event reasons of the Go kubelet; the last three are this agent's own."""

    CREATED_CONTAINER = "Created"
    STARTED_CONTAINER = "Started"
    FAILED_TO_CREATE_CONTAINER = "Failed"
    FAILED_TO_START_CONTAINER = "Failed"
    KILLING_CONTAINER = "Killing"
    PREEMPT_CONTAINER = "Preempting"
    EVICTED = "Evicted"
    EVICTION_THRESHOLD_MET = "EvictionThresholdMet"
    BACK_OFF_START_CONTAINER = "BackOff"
    FAILED_TO_KILL_POD = "FailedKillPod"
    FAILED_TO_CREATE_POD_CONTAINER = "FailedCreatePodContainer"
    NODE_SHUTDOWN = "Shutdown"
    NETWORK_NOT_READY = "NetworkNotReady"
    FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox"
    FAILED_STATUS_POD_SANDBOX = "FailedPodSandBoxStatus"
    SANDBOX_CHANGED = "SandboxChanged"
    PULLING_IMAGE = "Pulling"
    PULLED_IMAGE = "Pulled"
    FAILED_TO_PULL_IMAGE = "Failed"
    FAILED_TO_INSPECT_IMAGE = "InspectFailed"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    BACK_OFF_PULL_IMAGE = "BackOff"
    STARTING = "Starting"
    CHECK_LIMITS_FOR_RESOLV_CONF = "CheckLimitsForResolvConf"
    NODE_ALLOCATABLE_ENFORCED = "NodeAllocatableEnforced"
    FAILED_NODE_ALLOCATABLE_ENFORCEMENT = "FailedNodeAllocatableEnforcement"
    POSSIBLE_MEMORY_BACKED_VOLUMES_ON_DISK = "PossibleMemoryBackedVolumesOnDisk"
    FAILED_MOUNT = "FailedMount"
    FAILED_MAP_VOLUME = "FailedMapVolume"
    ALREADY_MOUNTED_VOLUME = "AlreadyMountedVolume"
    VOLUME_PERMISSION_CHANGE = "VolumePermissionChangeInProgress"
    VOLUME_ATTACHMENT_LIMIT_EXCEEDED = "VolumeAttachmentLimitExceeded"
    VOLUME_RESIZE_FAILED = "VolumeResizeFailed"
    FILE_SYSTEM_RESIZE_FAILED = "FileSystemResizeFailed"
    FILE_SYSTEM_RESIZE_SUCCESS = "FileSystemResizeSuccessful"
    UNHEALTHY = "Unhealthy"
    PROBE_WARNING = "ProbeWarning"
    FAILED_SYNC = "FailedSync"
    FAILED_VALIDATION = "FailedValidation"
    FAILED_PREPARE_DYNAMIC_RESOURCES = "FailedPrepareDynamicResources"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    FAILED_PRE_STOP_HOOK = "FailedPreStopHook"
    DNS_CONFIG_FORMING = "DNSConfigForming"
    CONTAINER_GC_FAILED = "ContainerGCFailed"
    IMAGE_GC_FAILED = "ImageGCFailed"
    FREE_DISK_SPACE_FAILED = "FreeDiskSpaceFailed"
    INVALID_DISK_CAPACITY = "InvalidDiskCapacity"
    RESIZE_STARTED = "ResizeStarted"
    RESIZE_DEFERRED = "ResizeDeferred"
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    RESIZE_COMPLETED = "ResizeCompleted"
    RESIZE_ERROR = "ResizeError"
    KUBELET_CONFIG_CHANGED = "KubeletConfigChanged"
    RUNTIME_NOT_READY = "ContainerRuntimeNotReady"
    HISTORY_DAMAGED = "HistoryDamaged"
    HISTORY_UNAVAILABLE = "HistoryUnavailable"
    KUBELET_CONFIG_REFUSED = "KubeletConfigRefused"
