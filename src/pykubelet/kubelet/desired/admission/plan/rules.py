"""The rules of admission in the order of the Go kubelet (pure): the first that fails gives reason and message.

Pressure; sysctls; operating system; groups policy; resources, affinity, name, ports and taints; AppArmor; node
shutdown. A critical pod for which resources are insufficient preempts other pods, if possible.
"""

from collections.abc import Sequence

from pykubelet.kubelet.desired.admission.admission_types import Needs, NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import Shortage, ports_taken, shortages
from pykubelet.kubelet.desired.admission.plan.node_properties import OS, OS_LABEL
from pykubelet.kubelet.desired.admission.plan.preemption import victims
from pykubelet.kubelet.types.admission import (
    ADMITTED,
    NODE_AFFINITY,
    SHUTDOWN_REJECTION,
    SHUTDOWN_REJECTION_MESSAGE,
    AdmissionVerdict,
)
from pykubelet.kubelet.types.podspec import AnyContainer, each_container
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, Taint
from pykubelet.models.node_match import matches_node, untolerated

_APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_MEMORY_PRESSURE = "MemoryPressure"
_MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
_UNCONFINED = ("Unconfined", "unconfined")
_PREDICATES = {
    NODE_AFFINITY: "node selector and affinity",
    "NodeName": "node name",
    "NodePorts": "host ports",
    "TaintToleration": "taints",
}
"""Rules by their predicates' names."""


def decide(
    pod: Pod, wanted: Needs, others: Sequence[Needs], node: NodeProperties, sysctl_refusal: str | None = None
) -> AdmissionVerdict:
    """Decide whether the pod may run with the `others`. ``sysctl_refusal``: why its sysctls are forbidden, or None."""
    if _is_kept_out_by_pressure(pod, wanted, node):
        return AdmissionVerdict(
            Reason.EVICTED, f"The node had condition: [{' '.join(node.conditions)}]. ", rule="node pressure"
        )
    if sysctl_refusal is not None:
        return AdmissionVerdict("SysctlForbidden", sysctl_refusal, rule="sysctls")
    wrong = _system(pod, node)
    if not wrong.admitted:
        return wrong
    short = shortages(wanted, others, node)
    mismatch = _mismatch(pod, wanted, others, node)
    verdict = ADMITTED
    if mismatch.reason and (wanted.critical or not short):
        verdict = mismatch
    elif short:
        verdict = _preempt(wanted, others, short)
    if verdict.admitted:
        verdict = _app_armor(pod, node, verdict)
    if verdict.admitted and node.shutting_down:
        return AdmissionVerdict(SHUTDOWN_REJECTION, SHUTDOWN_REJECTION_MESSAGE, rule="node shutdown")
    return verdict


def _is_kept_out_by_pressure(pod: Pod, wanted: Needs, node: NodeProperties) -> bool:
    """Whether node pressure keeps the pod out. A node under pressure admits only critical pods; under memory pressure
    alone, also pods with requests or limits, and best-effort pods that tolerate the taint."""
    if not node.conditions or wanted.critical:
        return False
    if node.conditions == (_MEMORY_PRESSURE,):
        tolerated = untolerated(pod, (_MEMORY_TAINT,), _MEMORY_TAINT.effect) is None
        return wanted.qos is QosClass.BEST_EFFORT and not tolerated
    return True


def is_for_shortage(verdict: AdmissionVerdict) -> bool:
    """Whether the pod could be admitted after other pods have ended."""
    return verdict.reason.startswith("OutOf") or verdict.reason in ("UnexpectedAdmissionError", "NodePorts")


def _system(pod: Pod, node: NodeProperties) -> AdmissionVerdict:
    """Check the rules that do not depend on other pods."""
    if pod.metadata.labels.get(OS_LABEL, OS) != OS:
        return AdmissionVerdict(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            rule="operating system",
        )
    if pod.spec.os is not None and pod.spec.os.name != OS:
        message = "Failed to admit pod as the OS field doesn't match node OS"
        return AdmissionVerdict("PodOSNotSupported", message, rule="operating system")
    context = pod.spec.security_context
    if context is not None and context.supplemental_groups_policy == "Strict" and node.strict_groups is False:
        message = "SupplementalGroupsPolicy=Strict is not supported in this node"
        return AdmissionVerdict("SupplementalGroupsPolicyNotSupported", message, rule="supplemental groups policy")
    return ADMITTED


def _mismatch(pod: Pod, wanted: Needs, others: Sequence[Needs], node: NodeProperties) -> AdmissionVerdict:
    if not matches_node(pod, node.name, node.labels):
        return _predicate(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in ("", node.name):
        return _predicate("NodeName", "node(s) didn't match the requested node name")
    if ports_taken(wanted, others):
        return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    # Static pods belong to the node, so its taints do not concern them.
    if not is_static(pod) and untolerated(pod, node.taints) is not None:
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return ADMITTED


def _predicate(name: str, text: str) -> AdmissionVerdict:
    return AdmissionVerdict(name, f"Predicate {name} failed: {text}", rule=_PREDICATES[name])


def _preempt(wanted: Needs, others: Sequence[Needs], short: tuple[Shortage, ...]) -> AdmissionVerdict:
    if not wanted.critical:
        return AdmissionVerdict(short[0].reason, str(short[0]), rule="resources")
    found = victims(wanted, others, short)
    if isinstance(found, str):
        message = f"Unexpected error while attempting to recover from admission failure: {found}"
        return AdmissionVerdict("UnexpectedAdmissionError", message, rule="resources, with preemption")
    gone = tuple(each.uid for each in found)
    return AdmissionVerdict(preempts=gone, preempted_for=short[0].name, rule="resources, with preemption")


def _app_armor(pod: Pod, node: NodeProperties, verdict: AdmissionVerdict) -> AdmissionVerdict:
    if node.app_armor or not any(_is_confined(pod, container) for _, container in each_container(pod)):
        return verdict
    return AdmissionVerdict("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host", rule="AppArmor")


def _is_confined(pod: Pod, container: AnyContainer) -> bool:
    """Whether the container has an AppArmor profile; its own field comes before the pod's and the annotation."""
    own, shared = container.security_context, pod.spec.security_context
    profile = (own.app_armor_profile if own else None) or (shared.app_armor_profile if shared else None)
    if profile is not None:
        return profile.type not in _UNCONFINED
    return pod.metadata.annotations.get(_APP_ARMOR_ANNOTATION + container.name, _UNCONFINED[0]) not in _UNCONFINED
