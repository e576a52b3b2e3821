"""Converts CRI messages to the types of ``types/runtime.py``. Pure; no other code parses CRI labels."""

import re
from collections.abc import Iterable

from pykubelet.base.text import has_in_order
from pykubelet.kubelet.actuate.cri_messages.labels import parse_container, parse_pod_ref
from pykubelet.kubelet.actuate.cri_messages.signals import signal_name
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.ip_addresses import is_ip
from pykubelet.kubelet.types.runtime import (
    ContainerResources,
    ContainerState,
    ContainerStatus,
    ContainerSummary,
    RuntimeConditions,
    RuntimePod,
    SandboxStatus,
    SandboxSummary,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_STATES = {
    pb.CONTAINER_CREATED: ContainerState.CREATED,
    pb.CONTAINER_RUNNING: ContainerState.RUNNING,
    pb.CONTAINER_EXITED: ContainerState.EXITED,
}

_CANCELLED = "context canceled"
_SHIM, _KILLED = re.compile(r"failed to start shim\b"), re.compile(r"\bsignal: killed")
"""Parts of containerd's message for a start that was cancelled, depending on how far it had come."""


def container_state(state: int) -> ContainerState:
    """Convert a container state; a state that CRI adds later counts as unknown."""
    return _STATES.get(pb.ContainerState.ValueType(state), ContainerState.UNKNOWN)


def seconds(nanoseconds: int) -> float:
    """Convert nanoseconds of CRI to Unix seconds; 0.0 if not set."""
    return nanoseconds / 1e9 if nanoseconds > 0 else 0.0


def runtime_pods(sandboxes: Iterable[pb.PodSandbox], containers: Iterable[pb.Container]) -> list[RuntimePod]:
    """Group sandboxes and containers by pod; objects without the labels of a Kubernetes agent are left out."""
    refs: dict[PodUID, PodRef] = {}
    boxes: dict[PodUID, list[SandboxSummary]] = {}
    rows: dict[PodUID, list[ContainerSummary]] = {}
    for sandbox in sandboxes:
        ref = parse_pod_ref(sandbox.labels)
        if ref is not None:
            refs.setdefault(ref.uid, ref)
            boxes.setdefault(ref.uid, []).append(sandbox_summary(sandbox))
    for container in containers:
        ref = parse_pod_ref(container.labels)
        if ref is not None:
            refs.setdefault(ref.uid, ref)
            rows.setdefault(ref.uid, []).append(container_summary(container))
    return [
        RuntimePod(
            ref,
            tuple(sorted(boxes.get(uid, ()), key=newness)),
            tuple(sorted(rows.get(uid, ()), key=newness)),
        )
        for uid, ref in refs.items()
    ]


def seen_pod(sandbox: pb.PodSandboxStatus, containers: Iterable[pb.ContainerStatus]) -> RuntimePod | None:
    """Pod of a container event: one sandbox with its containers. None without a sandbox of a Kubernetes agent."""
    ref = parse_pod_ref(sandbox.labels)
    if ref is None or not sandbox.id:
        return None
    rows = (_container_summary(each, SandboxID(sandbox.id)) for each in containers)
    return RuntimePod(ref, (sandbox_summary(sandbox),), tuple(sorted(rows, key=newness)))


def newness(row: SandboxSummary | ContainerSummary | SandboxStatus) -> tuple[int, float]:
    """Sort key, newest first: by attempt, since the wall clock may have been set back between two attempts."""
    return (-row.attempt, -row.created_at)


def newest_sandbox(rows: Iterable[pb.PodSandbox]) -> SandboxID | None:
    """Return the id of the newest sandbox in a list; None: it is empty."""
    newest = min(map(sandbox_summary, rows), key=newness, default=None)
    return newest.id if newest is not None else None


def container_summary(row: pb.Container) -> ContainerSummary:
    """Convert an entry of ListContainers."""
    return _container_summary(row, SandboxID(row.pod_sandbox_id))


def sandbox_summary(row: pb.PodSandbox | pb.PodSandboxStatus) -> SandboxSummary:
    """Convert an entry of ListPodSandbox, or a sandbox status to such an entry."""
    return SandboxSummary(
        id=SandboxID(row.id),
        ready=row.state == pb.SANDBOX_READY,
        created_at=seconds(row.created_at),
        attempt=row.metadata.attempt,
    )


def _container_summary(row: pb.Container | pb.ContainerStatus, sandbox: SandboxID) -> ContainerSummary:
    return ContainerSummary(
        id=ContainerID(row.id),
        name=row.metadata.name,
        state=container_state(row.state),
        sandbox_id=sandbox,
        attempt=row.metadata.attempt,
        created_at=seconds(row.created_at),
    )


def sandbox_status(status: pb.PodSandboxStatus) -> SandboxStatus:
    """Convert a sandbox status. If an address is invalid, the result has no addresses: such a sandbox is not usable."""
    reported = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
    ips = tuple(ip for ip in reported if ip)
    options = status.linux.namespaces.options
    return SandboxStatus(
        id=SandboxID(status.id),
        ready=status.state == pb.SANDBOX_READY,
        attempt=status.metadata.attempt,
        created_at=seconds(status.created_at),
        ips=ips if all(map(is_ip, ips)) else (),
        host_network=options.network == pb.NODE,
        runtime_handler=status.runtime_handler,
    )


def newest_first(statuses: Iterable[SandboxStatus]) -> tuple[SandboxStatus, ...]:
    """Sort sandboxes, newest first, by attempt, then by creation time."""
    return tuple(sorted(statuses, key=newness))


def containers_newest_first(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Sort containers, newest first, by restart count, then by creation time."""
    return tuple(sorted(statuses, key=lambda c: (-c.restart_count, -c.created_at)))


def container_status(status: pb.ContainerStatus, sandbox: SandboxID, message: str) -> ContainerStatus:
    """Convert a container status; ``message`` is the termination message of an exited container."""
    noted = parse_container(status.labels, status.annotations)
    state = ContainerState.CREATED if was_interrupted(status) else container_state(status.state)
    exited = state is ContainerState.EXITED
    return ContainerStatus(
        id=ContainerID(status.id),
        name=noted.name if noted and noted.name else status.metadata.name,
        state=state,
        sandbox_id=sandbox,
        created_at=seconds(status.created_at),
        started_at=0.0 if state is ContainerState.CREATED else seconds(status.started_at),
        finished_at=seconds(status.finished_at) if exited else 0.0,
        exit_code=status.exit_code if exited else 0,
        reason=status.reason if exited else "",
        message=message if exited else "",
        image=status.image.image or status.image.user_specified_image,
        image_id=status.image_ref,
        image_ref=status.image_id or status.image_ref,
        hash=noted.hash if noted else "",
        restart_count=noted.restart_count if noted else 0,
        log_path=status.log_path,
        resources=_resources(status),
        user=_user(status),
        stop_signal=signal_name(status.stop_signal),
    )


def was_interrupted(status: pb.ContainerStatus) -> bool:
    """Whether the start of a container was cancelled because its agent ended, so that the container never ran.

    Runtimes clean up such a start and report an exit. It does not count as an exit of the container, which is neither
    restarted nor failed for it: for the agent the container is still only created.
    """
    ended = status.state == pb.CONTAINER_EXITED and not status.started_at
    return ended and (_CANCELLED in status.message or has_in_order(status.message, _SHIM, _KILLED))


def _resources(status: pb.ContainerStatus) -> ContainerResources | None:
    if not status.resources.HasField("linux"):
        return None
    linux = status.resources.linux
    return ContainerResources(
        cpu_shares=linux.cpu_shares or None,
        cpu_quota_us=linux.cpu_quota or None,
        cpu_period_us=linux.cpu_period or None,
        memory_limit_bytes=linux.memory_limit_in_bytes or None,
    )


def _user(status: pb.ContainerStatus) -> tuple[int, int, tuple[int, ...]] | None:
    if not status.user.HasField("linux"):
        return None
    linux = status.user.linux
    return (linux.uid, linux.gid, tuple(linux.supplemental_groups))


def runtime_conditions(status: pb.StatusResponse) -> RuntimeConditions:
    """Return the runtime's two required conditions, which `CriClient.status` makes sure of.

    Why one is not met is told as by the Go kubelet.
    """
    faults = {
        c.type: "" if c.status else f"{c.type}=false reason:{c.reason} message:{c.message}"
        for c in status.status.conditions
    }
    runtime, network = faults["RuntimeReady"], faults["NetworkReady"]
    handlers = frozenset(handler.name for handler in status.runtime_handlers)
    return RuntimeConditions(not runtime, not network, runtime or network, handlers)
