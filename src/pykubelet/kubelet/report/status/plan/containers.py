"""Container statuses of the API, from the runtime's view of the containers. Pure.

Each container of the spec gets one status, whether or not the runtime has it: init containers in the order of the
spec, others sorted by name, as upstream. What the
runtime has lost is taken from the status reported before: the API must never report less than it did. A container that
ran and whose end was not observed has ended with 137 and the reason ContainerStatusUnknown, never with 0, since a 0
would make a failed job a success.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from pykubelet.base.image_reference import MAX_LENGTH
from pykubelet.base.text import cut
from pykubelet.kubelet.report.status.plan.resources import mount_statuses, status_resources
from pykubelet.kubelet.report.status.status_types import StatusContext
from pykubelet.kubelet.types.podspec import AnyContainer, is_sidecar
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.restart import asks_restart_of_all, restarts_after_exit
from pykubelet.kubelet.types.runtime import ContainerKind, ContainerState, PodRuntimeStatus
from pykubelet.kubelet.types.runtime import ContainerStatus as RuntimeStatus
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import Time, time_from_unix

STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
RESTARTING_ALL: Final = "RestartingAllContainers"
UNKNOWN_EXIT_CODE: Final = 137
MAX_POD_MESSAGE_BYTES: Final = 12 * 1024
"""Byte limit shared by the termination messages of one pod."""
MIN_WAITING_MESSAGE_BYTES: Final = 1024
"""Byte limit of why a container waits, however many the pod has; the message may contain a name of any length."""
_NO_PROBES: Final = ContainerProbes()
_NO_STATE: Final = core.ContainerState()


def containers_of(pod: core.Pod, kind: ContainerKind) -> tuple[AnyContainer, ...]:
    """Return the spec's containers of one kind."""
    match kind:
        case ContainerKind.INIT:
            return pod.spec.init_containers
        case ContainerKind.CONTAINER:
            return pod.spec.containers
        case ContainerKind.EPHEMERAL:
            return pod.spec.ephemeral_containers


def attempts_of(runtime: PodRuntimeStatus, name: str) -> list[RuntimeStatus]:
    """Return the runtime's attempts of a container, the relevant one first: the running one, else the newest.

    A leftover of an interrupted creation may be newer than the running attempt.
    """
    return sorted(runtime.attempts(name), key=lambda c: c.state is not ContainerState.RUNNING)


class ContainerComputer:
    """Computes the statuses of one pod's containers; a value object without side effects."""

    def __init__(self, *, pod: core.Pod, runtime: PodRuntimeStatus, ctx: StatusContext, restarting_all: bool) -> None:
        self._pod = pod
        self._runtime = runtime
        self._ctx = ctx
        self._restarting_all = restarting_all
        self._stopping = ctx.terminating or pod.metadata.deletion_timestamp is not None
        total = len(pod.spec.containers) + len(pod.spec.init_containers) + len(pod.spec.ephemeral_containers)
        self._message_bytes = MAX_POD_MESSAGE_BYTES // max(1, total)

    def statuses(
        self, kind: ContainerKind, previous: Sequence[core.ContainerStatus]
    ) -> tuple[core.ContainerStatus, ...]:
        """Return the statuses of all containers of one kind; ``previous`` are those reported last."""
        before = {status.name: status for status in previous}
        found = (self._one(kind, c, before.get(c.name)) for c in containers_of(self._pod, kind))
        return tuple(found if kind is ContainerKind.INIT else sorted(found, key=lambda status: status.name))

    def _one(
        self, kind: ContainerKind, container: AnyContainer, previous: core.ContainerStatus | None
    ) -> core.ContainerStatus:
        attempts = attempts_of(self._runtime, container.name)
        if attempts:
            status = self._from_runtime(container, attempts, previous)
        else:
            status = self._absent(kind, container, previous)
        status = self._waiting(kind, container, attempts, status)
        return self._readiness(kind, container, attempts, status, previous)

    def _from_runtime(
        self, container: AnyContainer, attempts: Sequence[RuntimeStatus], previous: core.ContainerStatus | None
    ) -> core.ContainerStatus:
        now = attempts[0]
        running = now.state is ContainerState.RUNNING
        container_id = self._api_id(now)
        return core.ContainerStatus(
            name=container.name,
            state=self._state_of(now, previous),
            last_state=self._last_state(attempts, previous, container_id),
            ready=False,
            restart_count=_restart_count(now, previous, container_id),
            image=now.image or cut(container.image, MAX_LENGTH),
            image_id=now.image_id or now.image_ref,
            container_id=container_id,
            resources=status_resources(container, now.resources, now.size)
            if running
            else container.resources or core.ResourceRequirements(),
            allocated_resources=container.resources.requests if container.resources else {},
            volume_mounts=self._mounts(container, previous),
            user=_user(now),
            stop_signal=now.stop_signal,
        )

    def _absent(
        self, kind: ContainerKind, container: AnyContainer, previous: core.ContainerStatus | None
    ) -> core.ContainerStatus:
        """Return the status of a container that the runtime does not have: never created, or removed by others."""
        fresh = core.ContainerStatus(
            name=container.name,
            image=cut(container.image, MAX_LENGTH),
            state=self._initial_state(),
            ready=False,
            restart_count=0,
            volume_mounts=self._mounts(container, previous),
        )
        if previous is None:
            return fresh
        state = _state(previous)
        reset = self._restarting_all and kind is not ContainerKind.EPHEMERAL and state.waiting is None
        if reset and not _asked_for_it(container, state):
            return replace(
                fresh,
                state=_waiting(RESTARTING_ALL, "removed for the restart of all containers of the pod"),
                last_state=_unknown_end(RESTARTING_ALL, "removed for the restart of all containers of the pod"),
                restart_count=previous.restart_count + 1,
            )
        if state.terminated is not None:
            return previous
        carried = replace(fresh, restart_count=previous.restart_count, last_state=previous.last_state)
        if state.running is None or (previous.last_state and previous.last_state.terminated):
            return carried
        return replace(
            carried,
            last_state=_unknown_end(STATUS_UNKNOWN, "the container was running and has disappeared; exit code unknown"),
            restart_count=previous.restart_count + (0 if self._stopping else 1),
        )

    def _state_of(self, now: RuntimeStatus, previous: core.ContainerStatus | None) -> core.ContainerState:
        match now.state:
            case ContainerState.RUNNING:
                return core.ContainerState(running=core.ContainerStateRunning(started_at=_time(now.started_at)))
            case ContainerState.CREATED:
                return self._initial_state()
            case ContainerState.EXITED:
                return self._ended(now, now.exit_code, now.reason, now.message)
            case ContainerState.UNKNOWN:
                before = _state(previous)
                if before.terminated is not None and before.terminated.container_id == self._api_id(now):
                    return before
                if before.running is None and not now.started_at:
                    return self._initial_state()
                message = "the runtime has lost the state of the container; its exit code is unknown"
                return self._ended(now, UNKNOWN_EXIT_CODE, STATUS_UNKNOWN, message)

    def _ended(self, now: RuntimeStatus, exit_code: int, reason: str, message: str) -> core.ContainerState:
        return core.ContainerState(
            terminated=core.ContainerStateTerminated(
                exit_code=exit_code,
                reason=reason,
                message=cut(message, self._message_bytes),
                started_at=_time(now.started_at),
                finished_at=_time(now.finished_at),
                container_id=self._api_id(now),
            )
        )

    def _last_state(
        self, attempts: Sequence[RuntimeStatus], previous: core.ContainerStatus | None, container_id: str
    ) -> core.ContainerState | None:
        ended = next((c for c in attempts[1:] if c.state is ContainerState.EXITED or c.started_at), None)
        if ended is not None:
            state = self._state_of(ended, None)
            if state.terminated is not None:
                return state
        if previous is None:
            return None
        before = _state(previous)
        if previous.container_id != container_id and before.terminated is not None:
            return before
        return previous.last_state

    def _waiting(
        self,
        kind: ContainerKind,
        container: AnyContainer,
        attempts: Sequence[RuntimeStatus],
        status: core.ContainerStatus,
    ) -> core.ContainerStatus:
        """Return the waiting status of a container that cannot start, with the reason of the failed attempt."""
        now = attempts[0] if attempts else None
        if kind is ContainerKind.INIT:
            if now is not None and now.state is ContainerState.EXITED and now.exit_code == 0:
                return status
            if now is None and not is_sidecar(container) and self._was_initialized(status):
                return replace(status, state=_completed())
        failure = self._ctx.waiting.get(container.name)
        if failure is None or not self._to_be_started(container, now):
            return status
        last = status.state if _state(status).terminated is not None else status.last_state
        message = cut(failure.message, max(self._message_bytes, MIN_WAITING_MESSAGE_BYTES))
        return replace(status, state=_waiting(failure.reason, message), last_state=last)

    def _to_be_started(self, container: AnyContainer, now: RuntimeStatus | None) -> bool:
        if self._stopping:
            return False
        if now is None or now.state in (ContainerState.CREATED, ContainerState.UNKNOWN):
            return True
        return now.state is ContainerState.EXITED and restarts_after_exit(self._pod, container, now.exit_code)

    def _was_initialized(self, status: core.ContainerStatus) -> bool:
        """Return whether a missing init container completed: an ordinary container was created after it."""
        return self._has_ordinary and _state(status).waiting is not None

    @cached_property
    def _has_ordinary(self) -> bool:
        """Whether an ordinary container was created; the same for each of thousands of init containers."""
        names = {c.name for c in self._pod.spec.containers}
        return any(c.name in names and c.state is not ContainerState.UNKNOWN for c in self._runtime.containers)

    def _readiness(
        self,
        kind: ContainerKind,
        container: AnyContainer,
        attempts: Sequence[RuntimeStatus],
        status: core.ContainerStatus,
        previous: core.ContainerStatus | None,
    ) -> core.ContainerStatus:
        """Set ``started`` and ``ready``; ephemeral containers have neither."""
        if kind is ContainerKind.EPHEMERAL:
            return status
        probes = self._ctx.probes.get(attempts[0].id, _NO_PROBES) if attempts else _NO_PROBES
        # A probe without a result means that the agent or the container has just started. An agent restart must not
        # make pods unready, so the last reported value of the same container still holds.
        same = previous if previous is not None and previous.container_id == status.container_id else None
        started = _state(status).running is not None
        if started and probes.startup is not None:
            started = probes.startup is ProbeResult.SUCCESS
        elif started and container.startup_probe is not None:
            started = bool(same and same.started)
        if kind is ContainerKind.INIT and not is_sidecar(container):
            ended = _state(status).terminated
            return replace(status, started=started, ready=ended is not None and ended.exit_code == 0)
        # Readiness does not depend on the pod's deletion: an EndpointSlice shows it as `serving` (KEP-1672).
        ready = started
        if ready and probes.readiness is not None:
            ready = probes.readiness is ProbeResult.SUCCESS
        elif ready and container.readiness_probe is not None:
            ready = bool(same and same.ready)
        return replace(status, started=started, ready=ready)

    def _mounts(
        self, container: AnyContainer, previous: core.ContainerStatus | None
    ) -> tuple[core.VolumeMountStatus, ...]:
        if previous is not None and previous.volume_mounts:
            return previous.volume_mounts
        return mount_statuses(container, recursive_read_only=self._ctx.recursive_read_only)

    def _initial_state(self) -> core.ContainerState:
        return _waiting("PodInitializing" if self._pod.spec.init_containers else "ContainerCreating")

    def _api_id(self, now: RuntimeStatus) -> str:
        return f"{self._ctx.runtime_name}://{now.id}"


def _asked_for_it(container: AnyContainer, state: core.ContainerState) -> bool:
    """Return whether this container's end triggered the restart of all containers."""
    return state.terminated is not None and asks_restart_of_all(container, state.terminated.exit_code)


def _state(status: core.ContainerStatus | None) -> core.ContainerState:
    return (status.state if status is not None else None) or _NO_STATE


def _waiting(reason: str, message: str = "") -> core.ContainerState:
    return core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason, message=message))


def _unknown_end(reason: str, message: str) -> core.ContainerState:
    terminated = core.ContainerStateTerminated(exit_code=UNKNOWN_EXIT_CODE, reason=reason, message=message)
    return core.ContainerState(terminated=terminated)


def _completed() -> core.ContainerState:
    message = (
        "Unable to get init container status: the runtime has removed the container; "
        "it has completed, since ordinary containers were made after it"
    )
    return core.ContainerState(
        terminated=core.ContainerStateTerminated(exit_code=0, reason="Completed", message=message)
    )


def _restart_count(now: RuntimeStatus, previous: core.ContainerStatus | None, container_id: str) -> int:
    """Return the runtime's count, unless it would decrease: the runtime may have lost earlier attempts."""
    if previous is None:
        return now.restart_count
    new_attempt = previous.container_id != container_id and _state(previous).terminated is not None
    if new_attempt and now.state is ContainerState.RUNNING:
        return max(now.restart_count, previous.restart_count + 1)
    return max(now.restart_count, previous.restart_count)


def _user(now: RuntimeStatus) -> core.ContainerUser | None:
    if now.user is None:
        return None
    uid, gid, groups = now.user
    return core.ContainerUser(linux=core.LinuxContainerUser(uid=uid, gid=gid, supplemental_groups=groups))


def _time(unix: float) -> Time | None:
    return time_from_unix(unix) if unix else None
