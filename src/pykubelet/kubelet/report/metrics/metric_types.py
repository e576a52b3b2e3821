"""Values counted at a scrape, and label values, which are upstream's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from pykubelet.kubelet.types.reports.pod_counts import WorkingPods
from pykubelet.kubelet.types.runtime import ContainerKind, RuntimePod
from pykubelet.models.core_v1 import ContainerStatus, Pod, PodStatus

CONTAINER_TYPES: Final[Mapping[ContainerKind, str]] = {
    ContainerKind.CONTAINER: "container",
    ContainerKind.INIT: "init_container",
    ContainerKind.EPHEMERAL: "ephemeral_container",
}
"""Values of the label ``container_type``."""

_NO_FAILURES: Final = frozenset(
    {"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff", "RestartingAllContainers"}
)
"""Waiting reasons that are no start errors."""
_CANNOT_RUN: Final = frozenset({"ContainerCannotRun", "StartError"})
"""Reasons of runtimes for the end of a container whose program never ran."""
_SHORTAGE: Final = "OutOf"
_REJECTIONS: Final = frozenset(
    {
        *(f"{_SHORTAGE}{resource}" for resource in ("cpu", "memory", "ephemeral-storage", "pods")),
        *("AppArmor", "Evicted", "NodeShutdown", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"),
        *("SupplementalGroupsPolicyNotSupported", "SysctlForbidden", "UnexpectedAdmissionError"),
        "VolumeAttachmentLimitExceeded",
    }
)
"""Reasons of rejected pods that are label values of their own."""
_MB: Final = 1024 * 1024
_IMAGE_SIZES: Final = (
    (100 * 1024 * _MB, "GT100GB"),
    (60 * 1024 * _MB, "60GB-100GB"),
    (40 * 1024 * _MB, "40GB-60GB"),
    (30 * 1024 * _MB, "30GB-40GB"),
    (20 * 1024 * _MB, "20GB-30GB"),
    (10 * 1024 * _MB, "10GB-20GB"),
    (5 * 1024 * _MB, "5GB-10GB"),
    (1024 * _MB, "1GB-5GB"),
    (500 * _MB, "500MB-1GB"),
    (100 * _MB, "100MB-500MB"),
    (10 * _MB, "10MB-100MB"),
)


class ProtectedMemory(Struct, frozen=True):
    """Memory that cgroups protect by the requests of pods (feature gate MemoryQoS)."""

    min: int
    """Of Guaranteed pods: never reclaimed."""
    low: int
    """Of Burstable pods: reclaimed last."""


class NodeCounts(Struct, frozen=True):
    """Counts of the node at present; computed at each scrape only."""

    desired_pods: Mapping[bool, int] = field(default_factory=dict)
    """By whether they are static."""
    active_pods: Mapping[bool, int] = field(default_factory=dict)
    """Desired and not terminated; by whether they are static."""
    working_pods: Mapping[WorkingPods, int] = field(default_factory=dict)
    mirror_pods: int = 0
    """Mirror pods: the API server's copies of static pods."""
    ephemeral_containers: int = 0
    """In the desired pods."""
    running_pods: int = 0
    running_containers: Mapping[str, int] = field(default_factory=dict)
    """By container state."""
    volumes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Volumes of pods, by plugin and state."""
    plugins: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Sockets of plugins, by path and state."""
    protected: ProtectedMemory | None = None
    """None: without MemoryQoS."""
    pleg_last_seen: float = 0.0
    """Unix time of the last complete relist."""


def count_runtime(pods: Iterable[RuntimePod]) -> tuple[int, dict[str, int]]:
    """Count pods with a ready sandbox, and containers by state."""
    running = 0
    states: dict[str, int] = {}
    for pod in pods:
        running += any(sandbox.ready for sandbox in pod.sandboxes)
        for container in pod.containers:
            states[container.state.value] = states.get(container.state.value, 0) + 1
    return running, states


def count_ephemeral(pods: Iterable[Pod]) -> int:
    """Count the ephemeral containers that pods declare."""
    return sum(len(pod.spec.ephemeral_containers) for pod in pods)


def rejection_label(reason: str) -> str:
    """Return the label of a pod's rejection; a pod may lack any number of resources, whose names are not labels."""
    if reason in _REJECTIONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith(_SHORTAGE) else "Other"


def image_size_label(size_bytes: int) -> str:
    """Return the label of an image's size class."""
    return next((label for bound, label in _IMAGE_SIZES if size_bytes >= bound), "0-10MB")


def newly_terminated(before: PodStatus | None, after: PodStatus) -> list[tuple[ContainerKind, int, str]]:
    """Kind, exit code and reason of the containers that ended between two statuses of a pod."""
    found = []
    for kind, was, now in _pairs(before if before is not None else PodStatus(), after):
        end = _end(now)
        if end is not None and (was is None or _end(was) is None):
            found.append((kind, *end))
    return found


def newly_started(before: PodStatus, after: PodStatus) -> list[ContainerKind]:
    """The kinds of the containers that were made between two statuses of a pod."""
    return [
        kind
        for kind, was, now in _pairs(before, after)
        if now.container_id and (was is None or was.container_id != now.container_id)
    ]


def newly_failed_to_start(before: PodStatus, after: PodStatus) -> list[tuple[ContainerKind, str]]:
    """Kind and reason of the containers that could not be started between two statuses of a pod."""
    found = []
    for kind, was, now in _pairs(before, after):
        reason = _start_error(now)
        if reason not in _NO_FAILURES and (was is None or _start_error(was) != reason):
            found.append((kind, reason))
    return found


def sandbox_newly_ready(before: PodStatus, after: PodStatus) -> bool:
    """Whether the pod got a sandbox between two statuses."""
    return _has_sandbox(after) and not _has_sandbox(before)


def _pairs(
    before: PodStatus, after: PodStatus
) -> Iterator[tuple[ContainerKind, ContainerStatus | None, ContainerStatus]]:
    """Each container's status with the one before."""
    for kind, was, now in (
        (ContainerKind.INIT, before.init_container_statuses, after.init_container_statuses),
        (ContainerKind.CONTAINER, before.container_statuses, after.container_statuses),
        (ContainerKind.EPHEMERAL, before.ephemeral_container_statuses, after.ephemeral_container_statuses),
    ):
        known = {status.name: status for status in was}
        for status in now:
            yield kind, known.get(status.name), status


def _start_error(status: ContainerStatus) -> str:
    """Return why the container could not be started, or one of `_NO_FAILURES`.

    It waits with that reason until it is started again; if it never is, by its restart policy, it has ended at once.
    """
    end = _end(status)
    if end is not None and end[1] in _CANNOT_RUN:
        return "RunContainerError"
    waiting = status.state.waiting if status.state is not None else None
    return waiting.reason if waiting is not None else ""


def _has_sandbox(status: PodStatus) -> bool:
    return any(c.type == "PodReadyToStartContainers" and c.status == "True" for c in status.conditions)


def _end(status: ContainerStatus) -> tuple[int, str] | None:
    terminated = status.state.terminated if status.state is not None else None
    return (terminated.exit_code, terminated.reason) if terminated is not None else None
