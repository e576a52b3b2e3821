"""What to send to the API server so that a pod's status there becomes ours, without reading it before. Pure.

A strategic merge patch of ``pods/status``: our fields in full, those that are empty as null, so that the patch comes
to the same whatever was there. Conditions are merged by type, so that those of others stay.
"""

from collections.abc import Sequence
from typing import Final

from pykubelet.kubelet.report.status.compute_conditions import OWNED, Condition
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus

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


def status_patch(uid: str, pod: Pod, status: PodStatus) -> dict[str, object]:
    """The patch for the pod of that uid (a static pod's mirror has another than the pod); ``pod`` as it was seen last.

    The uid is a precondition: a pod that took the name since then is not touched.
    """
    plain = to_builtins(status)
    assert isinstance(plain, dict)
    fields: dict[str, object] = {name: plain.get(name) for name in _OURS}
    # Lists that are merged by key lose nothing by themselves. (The directive that replaces a list is no way out: the
    # API server takes it for an element where there was no list.)
    fields["podIPs"] = _merged([each.ip for each in status.pod_ips], [each.ip for each in pod.status.pod_ips])
    fields["hostIPs"] = _merged([each.ip for each in status.host_ips], [each.ip for each in pod.status.host_ips])
    fields["conditions"] = [*_conditions(status), *_dropped(pod, status)]
    return {"metadata": {"uid": uid}, "status": fields}


def _merged(wanted: Sequence[str], there: Sequence[str]) -> list[object]:
    gone: list[object] = [{"$patch": "delete", "ip": ip} for ip in there if ip not in wanted]
    return [*({"ip": ip} for ip in wanted), *gone]


def ours(status: PodStatus) -> PodStatus:
    """The part of a status that is the agent's, to be compared: somebody else's conditions are left out."""
    return PodStatus(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        host_ip=status.host_ip,
        pod_ip=status.pod_ip,
        pod_ips=status.pod_ips,
        start_time=status.start_time,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        ephemeral_container_statuses=status.ephemeral_container_statuses,
        conditions=tuple(sorted((c for c in status.conditions if _is_ours(c)), key=lambda c: c.type)),
    )


def _conditions(status: PodStatus) -> list[object]:
    found: list[object] = []
    for condition in status.conditions:
        if _is_ours(condition):
            plain = to_builtins(condition)
            assert isinstance(plain, dict)
            # A merged condition keeps what it is not told to lose.
            found.append({"reason": None, "message": None, **plain})
    return found


def _dropped(pod: Pod, status: PodStatus) -> list[object]:
    """Our conditions that were there and no longer hold."""
    told = {condition.type for condition in status.conditions}
    gone = [c.type for c in pod.status.conditions if c.type in OWNED and c.type not in told]
    return [{"$patch": "delete", "type": name} for name in gone]


def _is_ours(condition: PodCondition) -> bool:
    return condition.type in OWNED or condition.type == Condition.DISRUPTION_TARGET
