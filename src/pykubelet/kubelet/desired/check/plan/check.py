"""All rules of a check in one call. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from pykubelet.kubelet.desired.check.check_types import CheckFinding, CheckSource, Rule, Severity
from pykubelet.kubelet.desired.check.plan.objects import duplicates, images, missing_objects
from pykubelet.kubelet.desired.check.plan.placement import node_findings, port_conflicts, too_large
from pykubelet.kubelet.desired.check.plan.subject import subject_of
from pykubelet.kubelet.desired.manifest.manifest_types import Manifest
from pykubelet.kubelet.types.reports.node_view import NodeView
from pykubelet.models.scalars import Quantity


def check(
    sources: Sequence[CheckSource],
    node: NodeView | None = None,
    *,
    known: Sequence[Manifest] = (),
    capacity: Mapping[str, Quantity] | None = None,
) -> tuple[CheckFinding, ...]:
    """Return everything that is wrong with manifests, in the order of the sources and places.

    ``node`` is the node that would run them, with the pods and objects it has already; None: it is unknown, and only
    what the manifests say about each other is checked, and whether a machine with ``capacity`` is large enough.
    ``known`` are the node's manifests, parsed with positions: findings that concern an object of the node name its line
    if it is among them. Never raises for what a manifest says.
    """
    found = list(_findings(sources, node, known, capacity))
    order = {source.manifest.origin: index for index, source in enumerate(sources)}
    return tuple(sorted(found, key=lambda each: (order[each.problem.origin], each.problem.line, each.problem.column)))


def _findings(
    sources: Sequence[CheckSource],
    node: NodeView | None,
    known: Sequence[Manifest],
    capacity: Mapping[str, Quantity] | None,
) -> Iterator[CheckFinding]:
    for source in sources:
        for problem in source.manifest.problems:
            yield CheckFinding(Rule.INVALID_MANIFEST, Severity.ERROR, problem)
    yield from duplicates(sources, node, known)
    subject = subject_of(sources, node, known)
    for pod in subject.pods:
        yield from images(pod)
    yield from missing_objects(subject)
    yield from port_conflicts(subject)
    if node is not None:
        yield from node_findings(subject, node)
    elif capacity is not None:
        yield from too_large(subject, capacity)
