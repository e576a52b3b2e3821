"""Input of the rules of a check: the pods to check with their places, and what surrounds them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from pykubelet.kubelet.desired.admission.admission_types import HostPort, Needs
from pykubelet.kubelet.desired.admission.plan.fit import host_ports, needs_of
from pykubelet.kubelet.desired.check.check_types import CheckFinding, CheckSource, FileLine, Rule, Severity
from pykubelet.kubelet.desired.manifest.manifest_types import Manifest, ManifestObject, ObjectKey, Problem
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.node_view import NodeView, ObjectView, PodView
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.models.core_v1 import Pod


class CheckedObject(Struct, frozen=True):
    """An object to check, the first with its key, and the manifest that defines it."""

    source: CheckSource
    item: ManifestObject

    @property
    def key(self) -> ObjectKey:
        return self.item.key

    def place(self, field: str = "") -> FileLine:
        """Return the place of a field, or of the object."""
        return FileLine(self.source.manifest.origin, self.item.position(field)[0])

    def found(
        self,
        rule: Rule,
        severity: Severity,
        field: str,
        message: str,
        remedy: str = "",
        related: Iterable[FileLine] = (),
    ) -> CheckFinding:
        """Return a finding about a field of the object."""
        line, column = self.item.position(field)
        problem = Problem(
            self.source.manifest.origin, message, remedy, line=line, column=column, field=field, object=str(self.key)
        )
        return CheckFinding(rule, severity, problem, tuple(related))


class GivenPod(CheckedObject, frozen=True):
    """A pod to check, and what it needs of the node."""

    pod: Pod
    needs: Needs


class NodePod(Struct, frozen=True):
    """A pod that the node has besides the pods to check."""

    key: ObjectKey
    source: str
    needs: Needs
    item: ManifestObject | None = None
    """Its manifest, if that is known with positions."""

    def port_place(self, port: HostPort) -> FileLine:
        """Return the place of its host port, as exactly as it is known."""
        if self.item is None or not isinstance(self.item.value, Pod):
            return FileLine(self.source or "the API server")
        field = next((path for path, each in host_ports(self.item.value) if each == port), "")
        return FileLine(self.source, self.item.position(field)[0])


class Subject(Struct, frozen=True):
    """Everything that a check looks at."""

    given: tuple[CheckedObject, ...]
    """The objects to check; of those with the same key only the first."""
    pods: tuple[GivenPod, ...]
    """The pods of ``given``."""
    invalid: frozenset[str]
    """``KIND NAMESPACE/NAME`` of the objects that have problems of their own, and therefore are not in ``given``."""
    node: NodeView | None
    """None: the node is unknown."""
    node_pods: tuple[NodePod, ...] = ()
    """The node's pods, without those that are checked."""
    objects: tuple[ObjectView, ...] = ()
    """The node's ConfigMaps and Secrets, without those that are checked."""


def subject_of(sources: Sequence[CheckSource], node: NodeView | None, known: Sequence[Manifest]) -> Subject:
    """Return the subject of a check; ``known`` are manifests of the node, for the lines of its objects."""
    first: dict[ObjectKey, CheckedObject] = {}
    for source in sources:
        for item in source.manifest.objects:
            first.setdefault(item.key, CheckedObject(source, item))
    given = tuple(first.values())
    invalid = frozenset(p.object for source in sources for p in source.manifest.problems if p.object)
    pods = tuple(
        GivenPod(each.source, each.item, each.item.value, needs_of(each.item.value))
        for each in given
        if isinstance(each.item.value, Pod)
    )
    if node is None:
        return Subject(given, pods, invalid, None)
    replaced = _replaced(sources, node)
    items = {(m.origin, item.key): item for m in known for item in m.objects}
    node_pods = []
    for view in node.pods:
        key = ObjectKey("Pod", view.namespace, view.name)
        if view.source not in replaced and key not in first:
            node_pods.append(NodePod(key, view.source, _needs(view), items.get((view.source, key))))
    objects = tuple(
        view
        for view in node.objects
        if view.source not in replaced and ObjectKey(view.kind, view.namespace, view.name) not in first
    )
    return Subject(given, pods, invalid, node, tuple(node_pods), objects)


def defined_elsewhere(sources: Sequence[CheckSource], node: NodeView) -> Iterator[tuple[CheckedObject, str, bool]]:
    """Yield the objects that the node has from another file: the object, that file, and whether both are in the
    manifest directory."""
    replaced = _replaced(sources, node)
    there = {ObjectKey("Pod", pod.namespace, pod.name): pod.source for pod in node.pods}
    there |= {ObjectKey(each.kind, each.namespace, each.name): each.source for each in node.objects}
    for source in sources:
        inside = bool(source.path) and str(PurePath(source.path).parent) == node.manifests
        for item in source.manifest.objects:
            other = there.get(item.key, "")
            if other and other not in replaced:
                yield CheckedObject(source, item), other, inside


def _replaced(sources: Sequence[CheckSource], node: NodeView) -> set[str]:
    """Return the files of the node of which a source is the next version: itself, and those of the same name in the
    manifest directory."""
    paths = {source.path for source in sources if source.path}
    return paths | {str(PurePath(node.manifests, PurePath(path).name)) for path in paths if node.manifests}


def _needs(view: PodView) -> Needs:
    ports = tuple(HostPort(each.ip, each.protocol, each.port) for each in view.host_ports)
    uid = PodUID(f"{view.namespace}/{view.name}")
    return Needs(uid, amounts(view.requests), ports, QosClass.BURSTABLE, False, None)
