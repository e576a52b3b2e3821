"""From CRI messages to the project's own picture of the runtime. Pure; the only place that parses CRI labels."""

import ipaddress
import re
from collections.abc import Iterable

from pykubelet.kubelet.actuate.criconfig.labels import parse_container, parse_pod_ref
from pykubelet.kubelet.actuate.criconfig.signals import signal_name
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerResources,
    ContainerState,
    ContainerStatus,
    ContainerSummary,
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

_INTERRUPTED = re.compile(r"context canceled|failed to start shim\b.*\bsignal: killed", re.DOTALL)
"""How containerd ends the message of a start that was broken off, depending on how far it had come."""


def container_state(state: int) -> ContainerState:
    """States that CRI may add count as unknown."""
    return _STATES.get(pb.ContainerState.ValueType(state), ContainerState.UNKNOWN)


def seconds(nanoseconds: int) -> float:
    """CRI's time as Unix seconds; 0.0 for not yet."""
    return nanoseconds / 1e9 if nanoseconds > 0 else 0.0


def runtime_pods(sandboxes: Iterable[pb.PodSandbox], containers: Iterable[pb.Container]) -> list[RuntimePod]:
    """Rows of the two lists, by pod; what no Kubernetes agent made is left out."""
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
    """What an event shows of a pod: one sandbox with its containers. None if it shows none that an agent has made."""
    ref = parse_pod_ref(sandbox.labels)
    if ref is None or not sandbox.id:
        return None
    rows = (_container_summary(each, SandboxID(sandbox.id)) for each in containers)
    return RuntimePod(ref, (sandbox_summary(sandbox),), tuple(sorted(rows, key=newness)))


def newness(row: SandboxSummary | ContainerSummary | SandboxStatus) -> tuple[int, float]:
    """Sorts the newest first: by attempt, since the wall clock may have been set back between two of them."""
    return (-row.attempt, -row.created_at)


def container_summary(row: pb.Container) -> ContainerSummary:
    """One row of ListContainers."""
    return _container_summary(row, SandboxID(row.pod_sandbox_id))


def sandbox_summary(row: pb.PodSandbox | pb.PodSandboxStatus) -> SandboxSummary:
    """One row of ListPodSandbox, or the same of a status."""
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
    """A sandbox in full. Addresses that are none leave it without any: such a sandbox cannot be used."""
    reported = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
    ips = tuple(ip for ip in reported if ip)
    options = status.linux.namespaces.options
    return SandboxStatus(
        id=SandboxID(status.id),
        ready=status.state == pb.SANDBOX_READY,
        attempt=status.metadata.attempt,
        created_at=seconds(status.created_at),
        ips=ips if all(map(_is_ip, ips)) else (),
        host_network=options.network == pb.NODE,
        runtime_handler=status.runtime_handler,
    )


def newest_first(statuses: Iterable[SandboxStatus]) -> tuple[SandboxStatus, ...]:
    """Sandboxes by attempt; two of the same attempt by age."""
    return tuple(sorted(statuses, key=newness))


def containers_newest_first(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Containers by restart count; two of the same count by age."""
    return tuple(sorted(statuses, key=lambda c: (-c.restart_count, -c.created_at)))


def container_status(status: pb.ContainerStatus, sandbox: SandboxID, message: str) -> ContainerStatus:
    """A container in full; ``message`` is what it shows once it has ended, termination message included."""
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
        image=status.image.user_specified_image or status.image.image,
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
    """Whether the start of a container was broken off with the agent that asked for it, so that it never ran.

    Runtimes undo such a start and report an exit. It says nothing about the container, which must be neither restarted
    nor called failed for it: for the agent it is still only created.
    """
    ended = status.state == pb.CONTAINER_EXITED and not status.started_at
    return ended and _INTERRUPTED.search(status.message) is not None


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


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
