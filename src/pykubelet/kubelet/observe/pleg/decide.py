"""What changed between two looks at the runtime, and what one runtime event changes. Pure.

The events for a change of state are those of the reference (``pkg/kubelet/pleg``); a sandbox counts as a container that
runs while it is ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar, assert_never

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg.types import PlegConfig
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


class Seen(Enum):
    """How a container or sandbox looked."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    """Created and not started, or in a state that the runtime cannot tell."""
    ABSENT = "absent"


_SEEN = {
    ContainerState.RUNNING: Seen.RUNNING,
    ContainerState.EXITED: Seen.EXITED,
    ContainerState.CREATED: Seen.UNKNOWN,
    ContainerState.UNKNOWN: Seen.UNKNOWN,
}


def diff_pod(uid: PodUID, old: RuntimePod | None, new: RuntimePod | None) -> list[PodLifecycleEvent]:
    """The events of one pod; None where the runtime has nothing of it."""
    before, after = _look(old), _look(new)
    return [
        PodLifecycleEvent(uid, kind, ContainerID(each))
        for each in dict.fromkeys((*before, *after))
        for kind in transition(before.get(each, Seen.ABSENT), after.get(each, Seen.ABSENT))
    ]


def transition(old: Seen, new: Seen) -> tuple[PodEventType, ...]:
    """What a container's change of state is called."""
    if old is new:
        return ()
    match new:
        case Seen.RUNNING:
            return (PodEventType.CONTAINER_STARTED,)
        case Seen.EXITED:
            return (PodEventType.CONTAINER_DIED,)
        case Seen.UNKNOWN:
            return (PodEventType.CONTAINER_CHANGED,)
        case Seen.ABSENT if old is Seen.EXITED:
            return (PodEventType.CONTAINER_REMOVED,)
        case Seen.ABSENT:
            return (PodEventType.CONTAINER_DIED, PodEventType.CONTAINER_REMOVED)
        case _:
            assert_never(new)


def ids(pod: RuntimePod) -> tuple[str, ...]:
    """Ids of everything the runtime has of the pod, sandboxes included."""
    return (*(s.id for s in pod.sandboxes), *(c.id for c in pod.containers))


def after(pod: RuntimePod | None, event: RuntimeEvent) -> RuntimePod | None:
    """The pod after an event that is about it, with all that the event says; None when nothing is left of it."""
    if event.seen is not None and event.kind is not RuntimeEventKind.DELETED:
        pod = event.seen if pod is None else _merged(pod, event.seen)
    pod = apply(pod, event) if pod is not None else None
    return pod if pod is not None and ids(pod) else None


def apply(pod: RuntimePod, event: RuntimeEvent) -> RuntimePod:
    """The pod after the event, as far as the event says it. A container that has ended never runs again."""
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


@dataclass(frozen=True, slots=True)
class Check:
    """The checks of one pod in transition. Times are monotonic seconds."""

    since: Seconds
    """Its last known change, or the last time somebody announced one."""
    at: Seconds
    """When to look next."""


def first_check(now: Seconds, config: PlegConfig) -> Check:
    """The first check of a pod of which a change is expected from now on."""
    return Check(now, now + config.first_check)


def next_check(check: Check, now: Seconds, config: PlegConfig) -> Check | None:
    """The check after one that saw no change; None when the relist of all pods is as good.

    Intervals are proportional to the age of the last change: what happens soon is seen soon, what takes long is not
    watched closely.
    """
    interval = max(config.first_check, config.check_ratio * (now - check.since))
    return Check(check.since, now + interval) if interval < config.relist_period else None


def count_running(pods: Mapping[PodUID, RuntimePod]) -> tuple[int, dict[ContainerState, int]]:
    """Pods with a ready sandbox, and containers by state."""
    states = dict.fromkeys(ContainerState, 0)
    for pod in pods.values():
        for container in pod.containers:
            states[container.state] += 1
    return sum(any(s.ready for s in pod.sandboxes) for pod in pods.values()), states


def duration_text(seconds: Seconds) -> str:
    """A duration as Go prints it (``3m0s``), to milliseconds: the health message is parsed by people's alerts."""
    millis = round(seconds * 1000)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _look(pod: RuntimePod | None) -> dict[str, Seen]:
    if pod is None:
        return {}
    sandboxes: dict[str, Seen] = {s.id: Seen.RUNNING if s.ready else Seen.EXITED for s in pod.sandboxes}
    return sandboxes | {c.id: _SEEN[c.state] for c in pod.containers}


def _merged(pod: RuntimePod, seen: RuntimePod) -> RuntimePod:
    """The pod with what is seen. Nothing is taken away and nothing that has ended lives again: events may be late."""
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
