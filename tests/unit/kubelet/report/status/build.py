"""The node that statuses are of, statuses of a pod from its start to its end, and their computation."""

from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.pod_status import compute_pod_status
from pykubelet.kubelet.report.status.status_types import StatusContext
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import NOW

HOST = ("192.0.2.1", "2001:db8::1")
"""The addresses of the node."""


def waiting(reason: str = "ContainerCreating", name: str = "app") -> core.ContainerStatus:
    state = core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason))
    return core.ContainerStatus(name=name, image="i", image_id="", ready=False, restart_count=0, state=state)


def runs(name: str = "app", *, ready: bool = True) -> core.ContainerStatus:
    state = core.ContainerState(running=core.ContainerStateRunning())
    return replace(waiting(name=name), state=state, ready=ready, started=True)


def condition(kind: str, status: str = "True", reason: str = "") -> core.PodCondition:
    return core.PodCondition(type=kind, status=status, reason=reason)


STARTING = core.PodStatus(
    phase="Pending",
    host_ip="10.0.0.1",
    container_statuses=(waiting(),),
    conditions=(condition("Initialized"), condition("Ready", "False", "ContainersNotReady"), condition("PodScheduled")),
)
WITH_SANDBOX = replace(
    STARTING, pod_ip="10.1.0.1", conditions=(*STARTING.conditions, condition("PodReadyToStartContainers"))
)
RUNNING = replace(
    WITH_SANDBOX,
    phase="Running",
    container_statuses=(runs(),),
    conditions=(condition("Ready"), condition("ContainersReady"), condition("Initialized")),
)
UNREADY = replace(
    RUNNING,
    container_statuses=(runs(ready=False),),
    conditions=(condition("Ready", "False"), condition("ContainersReady", "False"), condition("Initialized")),
)
STOPPING = replace(RUNNING, conditions=(*RUNNING.conditions, condition("PodReadyToStartContainers", "False")))


def compute(
    value: core.Pod,
    seen: PodRuntimeStatus,
    previous: core.PodStatus | None = None,
    *,
    now: float = NOW,
    host_ips: tuple[str, ...] = HOST,
    terminating: bool = False,
    terminal: tuple[str, str] = ("", ""),
    disruption: core.PodCondition | None = None,
) -> core.PodStatus:
    ctx = StatusContext(
        now=now,
        previous=previous,
        host_ips=host_ips,
        terminating=terminating,
        terminal_reason=terminal[0],
        terminal_message=terminal[1],
        disruption=disruption,
    )
    return compute_pod_status(value, seen, ctx)


class Node:
    """The node's properties that the status manager reads."""

    host_ips = ("192.0.2.1",)
    runtime_name = "containerd"

    def recursive_read_only(self, handler: str | None) -> bool:
        return handler == "rro"
