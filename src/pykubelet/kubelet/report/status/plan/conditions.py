"""The conditions of a pod, from its container statuses. Pure.

Reasons and messages are the Go kubelet's, since people and controllers match on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.status_types import FAILED, SUCCEEDED
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.resources.resize import ResizeReason, ResizeState
from pykubelet.kubelet.types.restart import asks_restart_of_all, has_restart_all_rule
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, ContainerStatus, Pod, PodCondition, PodStatus
from pykubelet.models.scalars import time_from_unix


class ConditionType(StrEnum):
    """Types of the conditions that the agent sets."""

    SCHEDULED = "PodScheduled"
    READY = "Ready"
    INITIALIZED = "Initialized"
    CONTAINERS_READY = "ContainersReady"
    READY_TO_START = "PodReadyToStartContainers"
    RESTARTING_ALL = "AllContainersRestarting"
    RESIZE_IN_PROGRESS = "PodResizeInProgress"
    RESIZE_PENDING = "PodResizePending"
    DISRUPTION_TARGET = "DisruptionTarget"
    """Shared with other controllers: set by the one that disrupts the pod, which may be the agent."""


class ConditionReason(StrEnum):
    """Reasons of conditions whose status is False."""

    UNKNOWN_STATUSES = "UnknownContainerStatuses"
    POD_COMPLETED = "PodCompleted"
    POD_FAILED = "PodFailed"
    CONTAINERS_NOT_READY = "ContainersNotReady"
    NOT_INITIALIZED = "ContainersNotInitialized"
    GATES_NOT_READY = "ReadinessGatesNotReady"
    RESTART_STARTED = "RestartAllContainersStarted"


_RESIZE: Final = frozenset({ConditionType.RESIZE_PENDING, ConditionType.RESIZE_IN_PROGRESS})
OWNED: Final = frozenset(ConditionType) - {ConditionType.DISRUPTION_TARGET}
"""Conditions that only the agent sets; all others are kept as they are."""

_TERMINAL_REASONS: Final = {SUCCEEDED: ConditionReason.POD_COMPLETED, FAILED: ConditionReason.POD_FAILED}

Statuses = Mapping[str, ContainerStatus]


def ready_to_start(pod: Pod, runtime: PodRuntimeStatus) -> PodCondition:
    """Return PodReadyToStartContainers: the pod has exactly one ready sandbox, with its network (KEP-3085)."""
    ready = sum(s.ready for s in runtime.sandboxes) == 1
    sandbox = runtime.ready_sandbox
    host_network = bool(pod.spec.host_network)
    usable = sandbox is not None and sandbox.host_network == host_network and (host_network or bool(sandbox.ips))
    return _condition(ConditionType.READY_TO_START, ready and usable)


def initialized(pod: Pod, statuses: Statuses, phase: str, before: Iterable[PodCondition]) -> PodCondition:
    """Return Initialized: all init containers have completed. Once true it stays true, even if they run again."""
    done = _condition(ConditionType.INITIALIZED, True)
    unknown = [c.name for c in pod.spec.init_containers if c.name not in statuses]
    if phase == SUCCEEDED and not unknown:
        return replace(done, reason=str(ConditionReason.POD_COMPLETED))
    ordinary = (statuses.get(c.name) for c in pod.spec.containers)
    if any(s.state.running or s.state.terminated for s in ordinary if s is not None and s.state is not None):
        return done
    incomplete = [
        c.name for c in pod.spec.init_containers if c.name in statuses and not _init_done(c, statuses[c.name])
    ]
    message = _message((("unknown", unknown), ("incomplete", incomplete)))
    if not message or any(c.type == ConditionType.INITIALIZED and c.status == "True" for c in before):
        return done
    if not statuses:
        return _condition(ConditionType.INITIALIZED, False, ConditionReason.UNKNOWN_STATUSES)
    return _condition(ConditionType.INITIALIZED, False, ConditionReason.NOT_INITIALIZED, message)


def containers_ready(pod: Pod, statuses: Statuses, phase: str) -> PodCondition:
    """Return ContainersReady: every sidecar and every ordinary container is ready."""
    kind = ConditionType.CONTAINERS_READY
    if not statuses:
        return _condition(kind, False, ConditionReason.UNKNOWN_STATUSES)
    names = [c.name for c in pod.spec.init_containers if is_sidecar(c)] + [c.name for c in pod.spec.containers]
    unknown = [name for name in names if name not in statuses]
    if phase == FAILED or (phase == SUCCEEDED and not unknown):
        return _condition(kind, False, _TERMINAL_REASONS[phase])
    unready = [name for name in names if name in statuses and not statuses[name].ready]
    message = _message((("unknown", unknown), ("unready", unready)))
    if message:
        return _condition(kind, False, ConditionReason.CONTAINERS_NOT_READY, message)
    return _condition(kind, True)


def pod_ready(pod: Pod, containers: PodCondition, others: Sequence[PodCondition]) -> PodCondition:
    """Return Ready: the containers and all readiness gates (KEP-580) are ready; gates are looked up in ``others``."""
    if containers.status != "True":
        return replace(containers, type=str(ConditionType.READY))
    found = {c.type: c.status for c in others}
    faults = []
    for gate in pod.spec.readiness_gates:
        status = found.get(gate.condition_type)
        if status is None:
            faults.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif status != "True":
            faults.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {status}')
    if faults:
        return _condition(ConditionType.READY, False, ConditionReason.GATES_NOT_READY, ", ".join(faults))
    return _condition(ConditionType.READY, True)


def scheduled() -> PodCondition:
    """Return PodScheduled: a pod on this node has been scheduled."""
    return _condition(ConditionType.SCHEDULED, True)


def is_restarting_all(pod: Pod, runtime: PodRuntimeStatus, before: PodStatus) -> bool:
    """Return whether the whole pod restarts in place because of how a container ended (KEP-5532).

    The container that triggered the restart is removed last. From then until it is re-created, its status in ``before``
    shows that the restart is in progress.
    """
    if not has_restart_all_rule(pod):
        return False
    last_states = {s.name: s.state for s in (*before.init_container_statuses, *before.container_statuses)}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        now, state = runtime.latest(container.name), last_states.get(container.name)
        if now is not None:
            ended = now.exit_code if now.state is ContainerState.EXITED else None
        elif state is not None and state.terminated is not None and pod.metadata.deletion_timestamp is None:
            ended = state.terminated.exit_code
        else:
            ended = None
        if ended is not None and asks_restart_of_all(container, ended):
            return True
    return False


def restarting_all(pod: Pod, phase: str, *, restarting: bool) -> tuple[PodCondition, ...]:
    """Return AllContainersRestarting for pods with a rule that restarts all containers; empty for other pods."""
    if not has_restart_all_rule(pod):
        return ()
    kind = ConditionType.RESTARTING_ALL
    if phase in _TERMINAL_REASONS:
        return (_condition(kind, False, _TERMINAL_REASONS[phase]),)
    if restarting:
        message = "container exited with restart policy rule"
        return (_condition(kind, True, ConditionReason.RESTART_STARTED, message),)
    return (_condition(kind, False),)


def resizing(state: ResizeState, phase: str) -> tuple[PodCondition, ...]:
    """Return the progress of an in-place resize (KEP-1287); empty once the pod has ended."""
    if phase in _TERMINAL_REASONS:
        return ()
    found = []
    if state.pending is not None:
        found.append(
            PodCondition(
                type=str(ConditionType.RESIZE_PENDING),
                status="True",
                reason=str(state.pending.reason),
                message=state.pending.message,
                observed_generation=state.pending.generation,
            )
        )
    if state.progress is not None:
        found.append(
            PodCondition(
                type=str(ConditionType.RESIZE_IN_PROGRESS),
                status="True",
                reason=str(ResizeReason.ERROR) if state.progress.error else "",
                message=state.progress.error,
                observed_generation=state.progress.generation,
            )
        )
    return tuple(found)


def stamped(
    conditions: Iterable[PodCondition], before: Iterable[PodCondition], generation: int | None, now: Seconds
) -> tuple[PodCondition, ...]:
    """Return the agent's conditions with observed generation and last transition time.

    Resize conditions carry their own generation, which may be an older one.
    """
    known = {c.type: c for c in before}
    return tuple(_stamp(c, known.get(c.type), generation, now) for c in conditions)


def _stamp(condition: PodCondition, before: PodCondition | None, generation: int | None, now: Seconds) -> PodCondition:
    if condition.type not in OWNED and condition.type != ConditionType.DISRUPTION_TARGET:
        return condition
    same = before is not None and before.status == condition.status
    if condition.type in _RESIZE:  # another reason is another state of the resize (upstream: updatedPodResizeCondition)
        same = same and before is not None and before.reason == condition.reason
    since = before.last_transition_time if before is not None and same else None
    since = since or condition.last_transition_time or time_from_unix(now)
    if condition.type not in _RESIZE:
        condition = replace(condition, observed_generation=generation)
    return replace(condition, last_transition_time=since)


def _init_done(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def _message(faults: Iterable[tuple[str, Sequence[str]]]) -> str:
    return ", ".join(f"containers with {what} status: [{' '.join(names)}]" for what, names in faults if names)


def _condition(
    kind: ConditionType, status: bool, reason: ConditionReason | None = None, message: str = ""
) -> PodCondition:
    return PodCondition(
        type=str(kind), status="True" if status else "False", reason=str(reason) if reason else "", message=message
    )
