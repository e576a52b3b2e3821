"""Label and field selectors of list and watch requests, in the syntax of the Kubernetes API. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pykubelet.kubelet.serve.common.plan.query import InvalidParameter
from pykubelet.models.core_v1 import Event, Pod
from pykubelet.models.meta_v1 import ObjectMeta

T = TypeVar("T")
LabelTest = Callable[[Mapping[str, str]], bool]

_NAME = r"[A-Za-z0-9_./-]+"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_NAME})\s*(==|=|!=)\s*([A-Za-z0-9_.-]*)")
_EXISTS = re.compile(rf"(!?)\s*({_NAME})")
_SEPARATOR = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"([A-Za-z.]+)(==|=|!=)([^,]*)")

POD_FIELDS: Final[Mapping[str, Callable[[Pod], str]]] = {
    "metadata.name": lambda pod: pod.metadata.name,
    "metadata.namespace": lambda pod: pod.metadata.namespace,
    "metadata.uid": lambda pod: pod.metadata.uid,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "status.phase": lambda pod: pod.status.phase,
    "status.podIP": lambda pod: pod.status.pod_ip,
}
EVENT_FIELDS: Final[Mapping[str, Callable[[Event], str]]] = {
    "metadata.name": lambda event: event.metadata.name,
    "metadata.namespace": lambda event: event.metadata.namespace,
    "involvedObject.kind": lambda event: event.involved_object.kind,
    "involvedObject.namespace": lambda event: event.involved_object.namespace,
    "involvedObject.name": lambda event: event.involved_object.name,
    "involvedObject.uid": lambda event: event.involved_object.uid,
    "involvedObject.fieldPath": lambda event: event.involved_object.field_path,
    "reason": lambda event: event.reason,
    "reportingComponent": lambda event: event.reporting_component,
    "source": lambda event: event.source.component if event.source is not None else "",
    "type": lambda event: event.type,
}
OBJECT_FIELDS: Final[Mapping[str, Callable[[ObjectMeta], str]]] = {
    "metadata.name": lambda meta: meta.name,
    "metadata.namespace": lambda meta: meta.namespace,
}


def label_test(selector: str) -> LabelTest:
    """Parse a label selector such as ``a=b,c!=d,e in (f,g),!h``. InvalidParameter names the part that is wrong."""
    tests = [_label_part(part.strip()) for part in _SEPARATOR.split(selector) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def field_test(selector: str, fields: Mapping[str, Callable[[T], str]]) -> Callable[[T], bool]:
    """Parse a field selector such as ``metadata.name=x,status.phase!=Running``.

    InvalidParameter: the syntax is wrong, or a field unknown.
    """
    tests: list[tuple[Callable[[T], str], bool, str]] = []
    for part in (p.strip() for p in selector.split(",")):
        if not part:
            continue
        match = _FIELD.fullmatch(part)
        if match is None:
            raise InvalidParameter(
                "fieldSelector", f"invalid field selector {part!r}: write FIELD=VALUE or FIELD!=VALUE"
            )
        name, operator, value = match.groups()
        if name not in fields:
            supported = ", ".join(fields)
            raise InvalidParameter("fieldSelector", f"field label not supported: {name}; supported: {supported}")
        tests.append((fields[name], operator != "!=", value))
    return lambda value: all((read(value) == wanted) is equal for read, equal, wanted in tests)


def _label_part(part: str) -> LabelTest:
    if match := _SET.fullmatch(part):
        key, operator, listed = match.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.fullmatch(part):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.fullmatch(part):
        absent, key = match.groups()
        return lambda labels: (key in labels) != bool(absent)
    forms = "KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY"
    raise InvalidParameter("labelSelector", f"invalid label selector {part!r}: write {forms}")
