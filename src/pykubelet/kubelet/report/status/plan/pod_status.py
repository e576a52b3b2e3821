"""The API status of a pod: a pure function of its spec, the runtime's view and the last reported status.

Workers call it at every step; everything that users see of a pod comes from here.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address

from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan import conditions
from pykubelet.kubelet.report.status.plan.containers import ContainerComputer
from pykubelet.kubelet.report.status.plan.phase import pod_phase, started_in_active_sandbox
from pykubelet.kubelet.report.status.plan.resources import pod_allocated, pod_resources
from pykubelet.kubelet.report.status.status_types import FAILED, RUNNING, SUCCEEDED, TERMINAL, StatusContext
from pykubelet.kubelet.types.admission import SHUTDOWN_REASON
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.resources.qos import pod_qos
from pykubelet.kubelet.types.runtime import ContainerKind, PodRuntimeStatus
from pykubelet.models.core_v1 import ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus
from pykubelet.models.scalars import time_from_unix


def compute_pod_status(pod: Pod, runtime: PodRuntimeStatus, ctx: StatusContext) -> PodStatus:
    """Return the status to report. Raises Invalid only for invalid quantities, which admission rejects."""
    before = _before(pod, ctx)
    restarting = conditions.is_restarting_all(pod, runtime, before)
    computer = ContainerComputer(pod=pod, runtime=runtime, ctx=ctx, restarting_all=restarting)
    init = computer.statuses(ContainerKind.INIT, before.init_container_statuses)
    ordinary = computer.statuses(ContainerKind.CONTAINER, before.container_statuses)
    computed = pod_phase(
        pod,
        (*init, *ordinary),
        terminating=ctx.terminating,
        initialized=started_in_active_sandbox(pod, runtime),
    )
    phase, reason, message = _phase(pod, before, ctx, computed)
    pod_ips = _pod_ips(pod, runtime, before, ctx.host_ips)
    status = PodStatus(
        phase=phase,
        reason=reason,
        message=message,
        container_statuses=ordinary,
        init_container_statuses=init,
        ephemeral_container_statuses=computer.statuses(ContainerKind.EPHEMERAL, before.ephemeral_container_statuses),
        host_ip=ctx.host_ips[0] if ctx.host_ips else before.host_ip,
        host_ips=tuple(HostIP(ip=ip) for ip in ctx.host_ips) or before.host_ips,
        pod_ip=pod_ips[0] if pod_ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in pod_ips),
        qos_class=before.qos_class or str(pod_qos(pod)),
        start_time=before.start_time or pod.status.start_time or time_from_unix(_start(ctx)),
        observed_generation=_generation(pod, before),
        nominated_node_name=before.nominated_node_name,
        resource_claim_statuses=before.resource_claim_statuses,
        extended_resource_claim_status=before.extended_resource_claim_status,
        resources=before.resources if ctx.resize.progress and before.resources else pod_resources(pod),
        allocated_resources=pod_allocated(pod),
    )
    judged = computed if _stays_ready(pod, runtime, ctx) else phase
    return replace(status, conditions=_conditions(pod, runtime, ctx, status, judged))


def rejected_status(pod: Pod, reason: str, message: str, now: Seconds) -> PodStatus:
    """Return the status of a pod rejected at admission: Failed with the reason, without container statuses."""
    return PodStatus(
        phase=FAILED,
        reason=reason,
        message=f"Pod was rejected: {message}",
        qos_class=str(pod_qos(pod)),
        start_time=pod.status.start_time or time_from_unix(now),
        observed_generation=pod.metadata.generation,
    )


def withheld(known: PodStatus, status: PodStatus) -> PodStatus:
    """Return the status to publish while containers of the pod may still run; ``known``: the one published before.

    Controllers replace a pod whose phase is terminal, so phase, reason, message and the agent's DisruptionTarget stay
    as they were (upstream: ``mergePodStatus`` in ``status_manager.go``).
    """
    if status.phase not in TERMINAL or known.phase in TERMINAL:
        return status
    kind = conditions.ConditionType.DISRUPTION_TARGET
    kept = (*(c for c in status.conditions if c.type != kind), *(c for c in known.conditions if c.type == kind))
    phase = known.phase or RUNNING
    return replace(status, phase=phase, reason=known.reason, message=known.message, conditions=kept)


def of_present_containers(status: PodStatus, runtime: PodRuntimeStatus) -> PodStatus:
    """Return what a status says of containers that the runtime still has, and the agent's own conditions.

    Nothing is taken over of containers that are gone: the pod's manifest may have been removed and written again.
    """
    known = {container.id for container in runtime.containers}

    def present(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        return tuple(s for s in statuses if s.container_id.rpartition("://")[2] in known)

    return PodStatus(
        init_container_statuses=present(status.init_container_statuses),
        container_statuses=present(status.container_statuses),
        conditions=tuple(c for c in status.conditions if c.type in conditions.OWNED),
    )


def with_reported(before: PodStatus | None, reported: PodStatus) -> PodStatus:
    """Return a status with what an earlier run of the agent has reported of the same attempts of containers.

    None: the agent knows nothing else. What it has seen itself of other attempts, and of the pod, stays.
    """
    if before is None:
        return reported
    known = {s.container_id: s for s in (*reported.init_container_statuses, *reported.container_statuses)}
    types = {condition.type for condition in reported.conditions}
    return replace(
        before,
        init_container_statuses=tuple(known.get(s.container_id, s) for s in before.init_container_statuses),
        container_statuses=tuple(known.get(s.container_id, s) for s in before.container_statuses),
        conditions=(*(c for c in before.conditions if c.type not in types), *reported.conditions),
    )


def is_settled(status: PodStatus) -> bool:
    """Return whether all containers that can be ready are, or the pod has ended."""
    kind = conditions.ConditionType.CONTAINERS_READY
    return status.phase in TERMINAL or any(c.type == kind and c.status == "True" for c in status.conditions)


def disruption_target(reason: str, message: str) -> PodCondition | None:
    """Return the DisruptionTarget condition for the reason why the agent ends a pod (KEP-3329); None: none."""
    if reason == Reason.PREEMPT_CONTAINER:
        message = "Pod was preempted by Kubelet to accommodate a critical pod."
    elif reason not in (Reason.EVICTED, SHUTDOWN_REASON):
        return None
    return PodCondition(
        type=conditions.ConditionType.DISRUPTION_TARGET, status="True", reason="TerminationByKubelet", message=message
    )


def _start(ctx: StatusContext) -> Seconds:
    return ctx.now if ctx.started is None else ctx.started


def _before(pod: Pod, ctx: StatusContext) -> PodStatus:
    """Return the last reported status."""
    return ctx.previous if ctx.previous is not None else pod.status


def _phase(pod: Pod, before: PodStatus, ctx: StatusContext, computed: str) -> tuple[str, str, str]:
    """Return phase, reason and message: a terminal phase stays; then the agent's own verdict; then the computed one.

    A pod that is stopped for the node's sake, and whose containers all end with 0, has Succeeded, without a reason
    (upstream: ``generateAPIPodStatus``); one that has exceeded its deadline has Failed in any case.
    """
    for known in (before, pod.status):
        if known.phase in TERMINAL:
            return known.phase, known.reason or pod.status.reason, known.message or pod.status.message
    succeeded = ctx.stopped and computed == SUCCEEDED and ctx.terminal_reason != Reason.DEADLINE_EXCEEDED
    if ctx.terminal_reason and not succeeded:
        return FAILED, ctx.terminal_reason, ctx.terminal_message
    if computed == before.phase:
        return computed, before.reason or pod.status.reason, before.message or pod.status.message
    return computed, "", ""


def _stays_ready(pod: Pod, runtime: PodRuntimeStatus, ctx: StatusContext) -> bool:
    """Return whether the agent is stopping the pod for the node's sake.

    Such a pod, though Failed, is ready while its containers are (upstream: ``podStatusFn`` of ``SyncTerminatingPod``
    follows the conditions); one that has exceeded its deadline is not.
    """
    stopping = ctx.terminal_reason and ctx.terminal_reason != Reason.DEADLINE_EXCEEDED and not ctx.stopped
    return bool(stopping and runtime.running and pod.status.phase not in TERMINAL)


def _conditions(
    pod: Pod, runtime: PodRuntimeStatus, ctx: StatusContext, status: PodStatus, phase: str
) -> tuple[PodCondition, ...]:
    """Return all conditions; ``phase`` decides about readiness."""
    before = _before(pod, ctx)
    statuses = {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}
    restarting = conditions.is_restarting_all(pod, runtime, before)
    others = [c for c in pod.status.conditions if c.type not in conditions.OWNED]
    disruption = ctx.disruption or next(
        (c for c in before.conditions if c.type == conditions.ConditionType.DISRUPTION_TARGET), None
    )
    if disruption is not None:
        others = [c for c in others if c.type != disruption.type] + [disruption]
    containers = conditions.containers_ready(pod, statuses, phase)
    return conditions.stamped(
        (
            *others,
            *conditions.resizing(ctx.resize, status.phase),
            conditions.ready_to_start(pod, runtime),
            conditions.initialized(pod, statuses, status.phase, before.conditions),
            conditions.pod_ready(pod, containers, others),
            containers,
            conditions.scheduled(),
            *conditions.restarting_all(pod, status.phase, restarting=restarting),
        ),
        before.conditions,
        status.observed_generation,
        ctx.now,
    )


def _generation(pod: Pod, before: PodStatus) -> int | None:
    """Return the generation of the spec that this status is about; never lower than the reported one."""
    known = [g for g in (pod.metadata.generation, before.observed_generation) if g is not None]
    return max(known) if known else None


def _pod_ips(pod: Pod, runtime: PodRuntimeStatus, before: PodStatus, host_ips: Sequence[str]) -> tuple[str, ...]:
    """Return at most one address per family, the node's primary family first.

    A pod keeps its addresses when its sandbox has ended. A host-network pod keeps the addresses it started with, even
    if the node's change, but may gain one of the other family.
    """
    known = tuple(each.ip for each in before.pod_ips)
    if pod.spec.host_network:
        if not known:
            return tuple(host_ips[:2])
        families = {_family(ip) for ip in known}
        return (*known, *(ip for ip in host_ips[1:2] if len(known) == 1 and _family(ip) not in families))
    if runtime.ready_sandbox is None:
        return known
    return _by_family(runtime.ips, primary=_family(host_ips[0]) if host_ips else 4)


def _by_family(ips: Sequence[str], *, primary: int) -> tuple[str, ...]:
    found: dict[int, str] = {}
    for ip in ips:
        family, text = _address(ip)
        if family:
            found.setdefault(family, text)
    return tuple(ip for _, ip in sorted(found.items(), key=lambda item: item[0] != primary))


def _family(ip: str) -> int:
    """Return 4 or 6; 0 for an invalid address."""
    return _address(ip)[0]


@lru_cache(maxsize=1024)
def _address(ip: str) -> tuple[int, str]:
    """Return family and normalized form of an address; cached, since the same ones are parsed again and again."""
    try:
        address = ip_address(ip)
    except ValueError:
        return 0, ""
    return address.version, str(address)
