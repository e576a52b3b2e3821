"""Whether admission would accept the pods: ports, node selectors, resources, runtime classes (pure).

Each verdict is that of ``admission/plan``; here it gets its line and remedy.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from typing import Generic, TypeVar

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.admission.admission_types import HostPort, NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import (
    EVERYWHERE,
    PODS,
    Shortage,
    Total,
    amount_of,
    host_ports,
    needs_of,
    shortages,
)
from pykubelet.kubelet.desired.admission.plan.rules import decide
from pykubelet.kubelet.desired.check.check_types import CheckFinding, Rule, Severity
from pykubelet.kubelet.desired.check.plan.subject import GivenPod, NodePod, Subject
from pykubelet.kubelet.desired.manifest.static import adopt
from pykubelet.kubelet.types.reports.node_view import NodeView, missing_handler
from pykubelet.kubelet.types.resources.pod_requests import CPU, amounts, is_extended
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import Pod, PodSecurityContext
from pykubelet.models.node_match import matches_affinity, unmatched_selectors
from pykubelet.models.quantity import NANO, Amount, Notation
from pykubelet.models.scalars import Quantity

T = TypeVar("T")
_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_CHARS = 6
_MOST_PLACES = 10
"""Other places that a finding about a port names at most: of n pods with one port, each would name all before it."""
_REPORTED = ("NodeAffinity", "NodeName", "NodePorts", "UnexpectedAdmissionError")
"""Reasons of admission that the other rules of this module report, besides ``OutOf…``."""


def port_conflicts(subject: Subject) -> Iterator[CheckFinding]:
    """Yield the host ports that another pod uses, a checked one or one of the node; each with both places."""
    before: _Ports[tuple[GivenPod, str]] = _Ports()
    node_pods: _Ports[NodePod] = _Ports()
    for other in subject.node_pods:
        for port in other.needs.ports:
            node_pods.add(port, other)
    for pod in subject.pods:
        own = list(host_ports(pod.pod))
        for field, port in own:
            given = ((str(each.key), each.place(path)) for _, (each, path) in before.conflicts(port))
            there = ((str(each.key), each.port_place(theirs)) for theirs, each in node_pods.conflicts(port))
            taken = list(islice(chain(given, there), _MOST_PLACES))
            if taken:
                owner, place = taken[0]
                where = f"{field}.hostPort"
                message = f"{port.port}/{port.protocol} is already taken by {owner} ({place})"
                remedy = "change one of the host ports, or give each its own hostIP"
                yield pod.found(Rule.HOST_PORT, Severity.ERROR, where, message, remedy, [each for _, each in taken])
        for field, port in own:
            before.add(port, (pod, field))


class _Ports(Generic[T]):
    """Host ports with their owners. A conflict is found in a time that does not depend on how many there are."""

    def __init__(self) -> None:
        self._count = 0
        self._all: dict[tuple[int, str], list[tuple[int, HostPort, T]]] = defaultdict(list)
        self._by_ip: dict[tuple[int, str, str], list[tuple[int, HostPort, T]]] = defaultdict(list)

    def add(self, port: HostPort, owner: T) -> None:
        """Add a port."""
        self._count += 1
        for places in (self._all[port.port, port.protocol], self._by_ip[port.port, port.protocol, port.ip]):
            places.append((self._count, port, owner))

    def conflicts(self, port: HostPort) -> Iterator[tuple[HostPort, T]]:
        """Yield the ports that conflict with one, in the order in which they were added, and their owners."""
        if port.ip in EVERYWHERE:
            found: Iterable[tuple[int, HostPort, T]] = self._all.get((port.port, port.protocol), ())
        else:
            at = [self._by_ip.get((port.port, port.protocol, ip), ()) for ip in (port.ip, *EVERYWHERE)]
            found = merge(*at, key=lambda each: each[0])
        for _, theirs, owner in found:
            yield theirs, owner


def node_findings(subject: Subject, node: NodeView) -> Iterator[CheckFinding]:
    """Yield what this node lacks for the pods."""
    facts = _facts(node)
    allowed = SysctlAllowlist.make((0, 0), node.sysctls)
    # Pods of manifests are critical: they preempt pods of the API server, but not each other.
    others = Total(other.needs for other in subject.node_pods if other.source)
    for pod in subject.pods:
        yield from _selectors(pod, facts)
        yield from _resources(pod, facts, others)
        others.add(pod.needs)
        if fault := missing_handler(pod.pod.spec.runtime_class_name or "", node.runtime_handlers):
            message = f"{pod.pod.spec.runtime_class_name!r}: {fault}"
            remedy = "configure the handler in the container runtime, or take the field away"
            yield pod.found(Rule.RUNTIME_CLASS, Severity.ERROR, "spec.runtimeClassName", message, remedy)
        yield from _sysctls(pod, allowed)
        yield from _features(pod, facts)


def too_large(subject: Subject, capacity: Mapping[str, Quantity]) -> Iterator[CheckFinding]:
    """Yield the pods that request more than a machine with these resources has."""
    facts = NodeProperties(name="", allocatable=amounts(capacity))
    for pod in subject.pods:
        for short in shortages(pod.needs, (), facts):
            yield _too_large(pod, short, "this machine has only {} of it")


def _selectors(pod: GivenPod, node: NodeProperties) -> Iterator[CheckFinding]:
    for key in unmatched_selectors(pod.pod, node.labels):
        value = node.labels.get(key)
        message = f"no label {key}" if value is None else f"the label {key}={value}"
        yield pod.found(
            Rule.NODE_SELECTOR,
            Severity.ERROR,
            f"spec.nodeSelector[{key}]",
            f"the node {node.name!r} has {message}, so the pod is rejected",
            f"take it away; the node's labels are: {_listed(node.labels)}",
        )
    if not matches_affinity(pod.pod, node.name, node.labels):
        message = f"no term matches the node {node.name!r}, so the pod is rejected"
        remedy = f"take it away; the node's labels are: {_listed(node.labels)}"
        yield pod.found(Rule.NODE_SELECTOR, Severity.ERROR, _AFFINITY, message, remedy)
    if pod.pod.spec.node_name not in ("", node.name):
        message = f"is not this node's name, {node.name!r}, and has no effect: the agent runs all its manifests"
        yield pod.found(Rule.NODE_SELECTOR, Severity.WARNING, "spec.nodeName", message, "take it away")


def _resources(pod: GivenPod, node: NodeProperties, others: Total) -> Iterator[CheckFinding]:
    for name in sorted(pod.needs.requests.by_name):
        if is_extended(name) and name not in node.allocatable and amount_of(pod.needs, name) > 0:
            yield pod.found(
                Rule.EXTENDED_RESOURCE,
                Severity.WARNING,
                _request_field(pod, name),
                f"no device plugin has registered {name!r} on this node; the container starts without it",
                "take it away, or mount the device with a hostPath volume into a privileged container",
            )
    alone = shortages(pod.needs, (), node)
    for short in alone:
        yield _too_large(pod, short, "the node has only {} for pods")
    reported = {short.name for short in alone}
    for short in others.shortages(pod.needs, node):
        if short.name in reported:
            continue
        message = (
            f"requests {_written(short.name, short.requested)} of {short.name}, but the other pods leave "
            f"{_written(short.name, max(0, short.capacity - short.used))} of {_written(short.name, short.capacity)}; "
            "it starts when others have ended"
        )
        if short.name == PODS:
            message = f"the node runs at most {short.capacity} pods, and has as many; it starts when others have ended"
        field = _request_field(pod, short.name)
        yield pod.found(Rule.NODE_RESOURCES, Severity.WARNING, field, message, "lower the requests, or remove a pod")


def _too_large(pod: GivenPod, short: Shortage, limit: str) -> CheckFinding:
    """Return a finding about a request; ``limit`` says what there is, with a place for the amount."""
    requested, capacity = _written(short.name, short.requested), _written(short.name, short.capacity)
    message = f"requests {requested} of {short.name}, but {limit.format(capacity)}"
    return pod.found(Rule.NODE_RESOURCES, Severity.ERROR, _request_field(pod, short.name), message, "lower the request")


def _sysctls(pod: GivenPod, allowed: SysctlAllowlist) -> Iterator[CheckFinding]:
    context = pod.pod.spec.security_context
    for index, sysctl in enumerate(context.sysctls if context is not None else ()):
        alone = replace(pod.pod, spec=replace(pod.pod.spec, security_context=PodSecurityContext(sysctls=(sysctl,))))
        if refusal := allowed.refusal(alone):
            remedy = "take it away, or allow it with allowedUnsafeSysctls in the configuration of the agent"
            field = f"spec.securityContext.sysctls[{index}].name"
            yield pod.found(Rule.NODE_FEATURE, Severity.ERROR, field, refusal, remedy)


def _features(pod: GivenPod, node: NodeProperties) -> Iterator[CheckFinding]:
    """Yield why admission rejects the pod for a reason that no other rule reports."""
    try:
        static = adopt(pod.pod, pod.item.digest, Source.FILE, pod.source.path, node.name)
    except Invalid:
        return  # reported with the duplicates
    verdict = decide(static, needs_of(static), (), node)
    if not verdict.admitted and verdict.reason not in _REPORTED and not verdict.reason.startswith("OutOf"):
        field = _feature_field(pod.pod, verdict.reason)
        yield pod.found(Rule.NODE_FEATURE, Severity.ERROR, field, f"{verdict.reason}: {verdict.message}")


def _feature_field(pod: Pod, reason: str) -> str:
    match reason:
        case "PodOSSelectorNodeLabelDoesNotMatch":
            return "metadata.labels[kubernetes.io/os]"
        case "PodOSNotSupported":
            return "spec.os.name"
        case "SupplementalGroupsPolicyNotSupported":
            return "spec.securityContext.supplementalGroupsPolicy"
        case "AppArmor":
            for index, container in enumerate(pod.spec.containers):
                if container.security_context is not None and container.security_context.app_armor_profile is not None:
                    return f"spec.containers[{index}].securityContext.appArmorProfile"
            return "spec.securityContext.appArmorProfile"
        case _:
            return "spec"


def _request_field(pod: GivenPod, name: str) -> str:
    """Return the path of the largest request of a resource: the pod's own, or that of a container."""
    own = pod.pod.spec.resources
    if own is not None and name in own.requests:
        return f"spec.resources.requests[{name}]"
    found: list[tuple[int, str]] = []
    for field, containers in (
        ("containers", pod.pod.spec.containers),
        ("initContainers", pod.pod.spec.init_containers),
    ):
        for index, container in enumerate(containers):
            requests = container.resources.requests if container.resources is not None else {}
            if name in requests:
                found.append((amounts(requests).amount(name).nano, f"spec.{field}[{index}].resources"))
    if not found:
        return "spec"
    path = max(found, key=lambda each: each[0])[1]
    # Limits are requests as well where these are not given.
    given = (f"{path}.{side}[{name}]" for side in ("requests", "limits"))
    return next((field for field in given if field in pod.item.positions), path)


def _written(name: str, amount: int) -> str:
    """Write an amount in the unit of `Shortage` as a quantity, a long one rounded to a tenth of its unit."""
    if name == CPU:
        return str(Amount(amount * (NANO // 1000)))
    if name == PODS or "/" in name:
        return str(amount)
    exact = str(Amount(amount * NANO, Notation.BINARY))
    if len(exact) <= _MAX_CHARS:
        return exact
    exponent = (amount.bit_length() - 1) // 10
    return f"{amount / (1 << 10 * exponent):.1f}{_UNITS[exponent]}"


def _listed(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"


def _facts(node: NodeView) -> NodeProperties:
    return NodeProperties(
        name=node.name,
        labels=node.labels,
        allocatable=amounts(node.allocatable),
        max_pods=node.max_pods,
        app_armor=node.app_armor,
        strict_groups=node.strict_groups,
    )
