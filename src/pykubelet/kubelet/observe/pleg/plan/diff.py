"""Differences between two lists of the runtime's pods, and the effect of a runtime event on the list. Pure.

The events for a change of state are those of the Go kubelet (``pkg/kubelet/pleg``); a sandbox counts as a container
that runs while the sandbox is ready.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar, assert_never

from msgspec.structs import replace

from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerSummary,
    PodEventType,
    PodLifecycleEvent,
    RuntimePod,
    SandboxSummary,
)
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind

_Id = TypeVar("_Id", SandboxID, ContainerID)
_Row = TypeVar("_Row", SandboxSummary, ContainerSummary)


class ObservedState(Enum):
    """Observed state of a container or sandbox."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    """Created and not started, or in a state unknown to the runtime."""
    ABSENT = "absent"


_SEEN = {
    ContainerState.RUNNING: ObservedState.RUNNING,
    ContainerState.EXITED: ObservedState.EXITED,
    ContainerState.CREATED: ObservedState.UNKNOWN,
    ContainerState.UNKNOWN: ObservedState.UNKNOWN,
}


def diff_pod(uid: PodUID, old: RuntimePod | None, new: RuntimePod | None) -> list[PodLifecycleEvent]:
    """Return the events of a pod; ``old`` or ``new`` is None where the runtime does not have the pod."""
    before, after = _states(old), _states(new)
    return [
        PodLifecycleEvent(uid, kind, ContainerID(each))
        for each in dict.fromkeys((*before, *after))
        for kind in transition(before.get(each, ObservedState.ABSENT), after.get(each, ObservedState.ABSENT))
    ]


def transition(old: ObservedState, new: ObservedState) -> tuple[PodEventType, ...]:
    """Return the event types for a container's change of state."""
    if old is new:
        return ()
    match new:
        case ObservedState.RUNNING:
            return (PodEventType.CONTAINER_STARTED,)
        case ObservedState.EXITED:
            return (PodEventType.CONTAINER_DIED,)
        case ObservedState.UNKNOWN:
            return (PodEventType.CONTAINER_CHANGED,)
        case ObservedState.ABSENT if old is ObservedState.EXITED:
            return (PodEventType.CONTAINER_REMOVED,)
        case ObservedState.ABSENT:
            return (PodEventType.CONTAINER_DIED, PodEventType.CONTAINER_REMOVED)
        case _:
            assert_never(new)


def ids(pod: RuntimePod) -> tuple[str, ...]:
    """Return the ids of the pod's sandboxes and containers."""
    return (*(s.id for s in pod.sandboxes), *(c.id for c in pod.containers))


def after(pod: RuntimePod | None, event: RuntimeEvent) -> RuntimePod | None:
    """Return the pod after an event about it, with the state that the event carries; None if it has neither sandboxes
    nor containers any more."""
    if event.seen is not None and event.kind is not RuntimeEventKind.DELETED:
        pod = event.seen if pod is None else _merged(pod, event.seen)
    pod = apply(pod, event) if pod is not None else None
    return pod if pod is not None and ids(pod) else None


def after_all(uid: PodUID, pod: RuntimePod | None, events: Iterable[RuntimeEvent]) -> RuntimePod | None:
    """Return the pod ``uid`` of a list or check after the events that arrived meanwhile, in their order."""
    for event in events:
        if event.pod_uid in (None, uid):
            pod = after(pod, event)
    return pod


def to_compare(known: Iterable[PodUID], listed: Iterable[PodUID], events: Iterable[RuntimeEvent]) -> tuple[PodUID, ...]:
    """Return the pods that a list of all pods may have changed, those that it does not have first."""
    there = {*listed, *(event.seen.uid for event in events if event.seen is not None)}
    return (*(uid for uid in known if uid not in there), *sorted(there))


def is_published(event: PodLifecycleEvent) -> bool:
    """Whether the sync loop gets the event. As upstream: no component acts on a container that was only created."""
    return event.type is not PodEventType.CONTAINER_CHANGED


def apply(pod: RuntimePod, event: RuntimeEvent) -> RuntimePod:
    """Return the pod after the event's change of one container. A container that has ended never runs again."""
    match event.kind:
        case RuntimeEventKind.DELETED:
            return replace(
                pod,
                sandboxes=tuple(s for s in pod.sandboxes if s.id != event.container_id),
                containers=tuple(c for c in pod.containers if c.id != event.container_id),
            )
        case RuntimeEventKind.STARTED | RuntimeEventKind.STOPPED:
            return replace(
                pod,
                sandboxes=tuple(_sandbox_after(s, event) for s in pod.sandboxes),
                containers=tuple(_container_after(c, event) for c in pod.containers),
            )
        case RuntimeEventKind.CREATED | RuntimeEventKind.OOM:
            return pod
        case _:
            assert_never(event.kind)


def count_running(pods: Mapping[PodUID, RuntimePod]) -> tuple[int, dict[ContainerState, int]]:
    """Count the pods with a ready sandbox, and the containers by state."""
    states = dict.fromkeys(ContainerState, 0)
    for pod in pods.values():
        for container in pod.containers:
            states[container.state] += 1
    return sum(any(s.ready for s in pod.sandboxes) for pod in pods.values()), states


def _states(pod: RuntimePod | None) -> dict[str, ObservedState]:
    if pod is None:
        return {}
    sandboxes: dict[str, ObservedState] = {
        s.id: ObservedState.RUNNING if s.ready else ObservedState.EXITED for s in pod.sandboxes
    }
    return sandboxes | {c.id: _SEEN[c.state] for c in pod.containers}


def _merged(pod: RuntimePod, seen: RuntimePod) -> RuntimePod:
    """Merge an event's view of a pod into the known one. Nothing is removed, and nothing that has ended runs again,
    since events may be late."""
    boxes = {each.id: each for each in seen.sandboxes} | {each.id: each for each in pod.sandboxes if not each.ready}
    rows = {each.id: each for each in seen.containers}
    rows |= {each.id: each for each in pod.containers if each.state is ContainerState.EXITED}
    return RuntimePod(
        pod.ref,
        _newest_first({each.id: each for each in pod.sandboxes} | boxes),
        _newest_first({each.id: each for each in pod.containers} | rows),
    )


def _newest_first(rows: Mapping[_Id, _Row]) -> tuple[_Row, ...]:
    return tuple(sorted(rows.values(), key=lambda row: (-row.attempt, -row.created_at)))


def _sandbox_after(sandbox: SandboxSummary, event: RuntimeEvent) -> SandboxSummary:
    if sandbox.id != event.container_id or event.kind is not RuntimeEventKind.STOPPED:
        return sandbox
    return replace(sandbox, ready=False)


def _container_after(container: ContainerSummary, event: RuntimeEvent) -> ContainerSummary:
    if container.id != event.container_id:
        return container
    if event.kind is RuntimeEventKind.STOPPED:
        return replace(container, state=ContainerState.EXITED)
    ended = container.state is ContainerState.EXITED
    return container if ended else replace(container, state=ContainerState.RUNNING)
