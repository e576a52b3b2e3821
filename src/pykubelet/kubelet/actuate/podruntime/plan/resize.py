"""Plans an in-place resize: the changes that bring a running pod to its allocated size (KEP-1287). Pure.

A container is restarted if its `resizePolicy` requires it; any other is resized while it runs. Containers that shrink
come before containers that grow, so that the sum never exceeds the limit of the pod.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import StrEnum

from msgspec import Struct, field

from pykubelet.kubelet.actuate.podruntime.plan.restart import current
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill, KillReason, PodActions
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY
from pykubelet.kubelet.types.resources.resize import container_size
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupResources
from pykubelet.models.core_v1 import Container, Pod

_RESTART = "RestartContainer"


class SizeChange(Struct, frozen=True):
    """A running container to resize."""

    id: ContainerID
    container: Container
    now: Size
    wanted: Size

    @property
    def memory_limit_falls(self) -> bool:
        """Whether the memory limit becomes lower, so that current usage may exceed it."""
        return self.wanted.memory_limit > 0 and not 0 < self.now.memory_limit <= self.wanted.memory_limit


class ResizePlan(Struct, frozen=True):
    """Containers to resize, in this order, memory before CPU, and containers to restart."""

    memory: tuple[SizeChange, ...] = ()
    cpu: tuple[SizeChange, ...] = ()
    restart: tuple[ContainerKill, ...] = ()
    start_init: tuple[Container, ...] = field(default=())
    start: tuple[Container, ...] = field(default=())


class PodStep(StrEnum):
    """Step of resizing a pod for one resource."""

    LIMIT = "limit"
    REQUEST = "request"
    CONTAINERS = "containers"


def plan_resize(
    pod: Pod, status: PodRuntimeStatus, sandbox: SandboxID, applied: Mapping[str, Size], busy: Collection[ContainerID]
) -> ResizePlan:
    """Plan the resize of containers that run in this sandbox with another size than the pod's spec has.

    ``applied`` has the current sizes by container name, ``busy`` the containers that this sync stops anyway.
    """
    changes: list[SizeChange] = []
    restart: list[SizeChange] = []
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        attempt, now = current(status, container.name, sandbox), applied.get(container.name)
        if now is None or attempt is None or attempt.state is not ContainerState.RUNNING or attempt.id in busy:
            continue
        change = SizeChange(attempt.id, container, now, container_size(pod, container))
        if change.now != change.wanted:
            (restart if _needs_restart(change) else changes).append(change)
    names = {change.container.name for change in restart}
    return ResizePlan(
        memory=_in_order(changes, MEMORY),
        cpu=_in_order(changes, CPU),
        restart=tuple(_kill(change) for change in restart),
        start_init=tuple(c for c in pod.spec.init_containers if c.name in names),
        start=tuple(c for c in pod.spec.containers if c.name in names),
    )


def with_resize(
    actions: PodActions, pod: Pod, status: PodRuntimeStatus, applied: Mapping[str, Size]
) -> tuple[PodActions, ResizePlan | None]:
    """Add a resize to the actions of a sync; the plan is None if the sync leaves no running pod to resize."""
    if actions.kill_pod or actions.reset or actions.sandbox_id is None:
        return actions, None
    plan = plan_resize(pod, status, actions.sandbox_id, applied, {kill.id for kill in actions.kill})
    if not plan.restart:
        return actions, plan
    actions = replace(
        actions,
        kill=(*actions.kill, *plan.restart),
        start_init=_in_spec_order(pod.spec.init_containers, (*actions.start_init, *plan.start_init)),
        start=_in_spec_order(pod.spec.containers, (*actions.start, *plan.start)),
    )
    return actions, plan


def pod_steps(now: int | None, wanted: int | None, now_request: int, wanted_request: int) -> tuple[PodStep, ...]:
    """Return the order of steps for one resource: the pod grows before its containers and shrinks after them.

    When it grows, the limit is set before the request; when it shrinks, the request before the limit. ``now`` and
    ``wanted`` are limits, `UNLIMITED` for no limit; None is a limit that the agent does not manage.
    """
    order: list[PodStep] = []
    limit_change = _grows(now, wanted)
    if limit_change is True:
        order.append(PodStep.LIMIT)
    if wanted_request > now_request:
        order.append(PodStep.REQUEST)
    order.append(PodStep.CONTAINERS)
    if wanted_request < now_request:
        order.append(PodStep.REQUEST)
    if limit_change is False:
        order.append(PodStep.LIMIT)
    return tuple(order)


def pod_memory_falls(now: CgroupResources, wanted: CgroupResources) -> bool:
    """Whether the pod's memory limit becomes lower."""
    return _grows(now.memory_max, wanted.memory_max) is False


def _grows(now: int | None, wanted: int | None) -> bool | None:
    """Whether a limit grows; None if it does not change."""
    if now is None or wanted is None or now == wanted:
        return None
    if UNLIMITED in (now, wanted):
        return wanted == UNLIMITED
    return wanted > now


def _needs_restart(change: SizeChange) -> bool:
    """Whether the container's `resizePolicy` requires a restart for one of the changed resources."""
    now, wanted = change.now, change.wanted
    changed = {
        CPU: (now.cpu_request, now.cpu_limit) != (wanted.cpu_request, wanted.cpu_limit),
        MEMORY: (now.memory_request, now.memory_limit) != (wanted.memory_request, wanted.memory_limit),
    }
    policies: dict[str, str] = {}
    for policy in change.container.resize_policy:
        policies.setdefault(policy.resource_name, policy.restart_policy)
    return any(changed[name] and policies.get(name) == _RESTART for name in changed)


def _in_order(changes: list[SizeChange], resource: str) -> tuple[SizeChange, ...]:
    """Changes of one resource, shrinking containers first; the limit decides, else the request."""
    found = []
    for change in changes:
        now, wanted = _amounts(change.now, resource), _amounts(change.wanted, resource)
        differing = next(((a, b) for a, b in zip(now, wanted, strict=True) if a != b), None)
        if differing is not None:
            found.append((differing[1] > differing[0], change))
    return tuple(change for _, change in sorted(found, key=lambda item: item[0]))


def _amounts(size: Size, resource: str) -> tuple[int, int]:
    if resource == CPU:
        return size.cpu_limit, size.cpu_request
    return size.memory_limit, size.memory_request


def _kill(change: SizeChange) -> ContainerKill:
    name = change.container.name
    return ContainerKill(change.id, name, f"Container {name} resize requires restart", KillReason.UNKNOWN)


def _in_spec_order(spec: tuple[Container, ...], wanted: tuple[Container, ...]) -> tuple[Container, ...]:
    names = {c.name for c in wanted}
    return tuple(c for c in spec if c.name in names)
