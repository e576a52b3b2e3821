"""The patch that makes a pod's status in the API server equal to the agent's, without reading it first. Pure.

A strategic merge patch of ``pods/status``: the agent's fields in full, empty ones as null, so that the result does not
depend on the previous content. Conditions are merged by type, so conditions of others stay.
"""

from collections.abc import Sequence
from typing import Final

from pykubelet.kubelet.report.status.plan.conditions import OWNED, ConditionType
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import PodCondition, PodStatus

_OURS: Final = (
    "observedGeneration",
    "phase",
    "reason",
    "message",
    "hostIP",
    "podIP",
    "startTime",
    "qosClass",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resources",
    "allocatedResources",
    "resize",
)


def status_patch(uid: str, present: PodStatus, status: PodStatus) -> dict[str, object]:
    """Return the patch for the pod of that uid (a static pod's mirror has its own).

    ``present`` is the newest known status of the API server's object: addresses that only it has are removed.
    The uid is a precondition: a pod that has taken the name since then is not touched.
    """
    plain = to_builtins(status)
    assert isinstance(plain, dict)
    fields: dict[str, object] = {name: plain.get(name) for name in _OURS}
    # Lists that are merged by key never lose elements by themselves. The directive that replaces a list does not help:
    # the API server takes it for an element where there was no list.
    fields["podIPs"] = _merged([each.ip for each in status.pod_ips], [each.ip for each in present.pod_ips])
    fields["hostIPs"] = _merged([each.ip for each in status.host_ips], [each.ip for each in present.host_ips])
    fields["conditions"] = [*_conditions(status), *_dropped(present, status)]
    return {"metadata": {"uid": uid}, "status": fields}


def _merged(wanted: Sequence[str], existing: Sequence[str]) -> list[object]:
    removed: list[object] = [{"$patch": "delete", "ip": ip} for ip in existing if ip not in wanted]
    return [*({"ip": ip} for ip in wanted), *removed]


def agent_part(status: PodStatus) -> PodStatus:
    """Return the agent's part of a status, for comparisons: without conditions of others."""
    return PodStatus(
        observed_generation=status.observed_generation,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        host_ip=status.host_ip,
        pod_ip=status.pod_ip,
        host_ips=status.host_ips,
        pod_ips=status.pod_ips,
        start_time=status.start_time,
        qos_class=status.qos_class,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        ephemeral_container_statuses=status.ephemeral_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
        resize=status.resize,
        conditions=tuple(sorted((c for c in status.conditions if _is_owned(c)), key=lambda c: c.type)),
    )


def _conditions(status: PodStatus) -> list[object]:
    found: list[object] = []
    for condition in status.conditions:
        if _is_owned(condition):
            plain = to_builtins(condition)
            assert isinstance(plain, dict)
            # A merged condition keeps fields that the patch does not mention.
            found.append({"reason": None, "message": None, **plain})
    return found


def _dropped(present: PodStatus, status: PodStatus) -> list[object]:
    """Return the removals of all conditions of the agent that do not hold, whether ``present`` has them or not.

    An earlier patch may have set one although its answer, or its watch event, has not arrived.
    """
    if not present.conditions:
        return []
    wanted = {condition.type for condition in status.conditions}
    return [{"$patch": "delete", "type": name} for name in sorted(OWNED) if name not in wanted]


def _is_owned(condition: PodCondition) -> bool:
    return condition.type in OWNED or condition.type == ConditionType.DISRUPTION_TARGET
