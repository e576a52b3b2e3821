"""Whether objects are defined once, images can be parsed, and the ConfigMaps and Secrets that pods use exist. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pykubelet.base.image_reference import InvalidReference, parse
from pykubelet.base.suggestion import closest
from pykubelet.kubelet.desired.check.check_types import CheckFinding, CheckSource, FileLine, Rule, Severity
from pykubelet.kubelet.desired.check.plan.subject import GivenPod, Subject, defined_elsewhere
from pykubelet.kubelet.desired.manifest.manifest_types import Manifest, ObjectKey
from pykubelet.kubelet.desired.objects.plan.references import Reference, named_objects
from pykubelet.kubelet.desired.sources.plan.effective_manifests import accept, assemble
from pykubelet.kubelet.types.reports.node_view import NodeView
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Secret

Keys = frozenset[str]


def duplicates(
    sources: Sequence[CheckSource], node: NodeView | None, known: Sequence[Manifest]
) -> Iterator[CheckFinding]:
    """Yield what the agent would report about the manifests together: objects and uids that are given twice, names
    that are too long with the node's name; and objects that the node has from another file."""
    places: dict[str, FileLine] = {}
    for source in sources:
        for item in source.manifest.objects:
            places.setdefault(str(item.key), FileLine(source.manifest.origin, item.position("metadata.name")[0]))
    records = [accept(None, source.manifest, "") for source in sources]
    content = assemble(records, Source.FILE, node.name if node is not None else "")
    for source, state in zip(sources, content.states, strict=True):
        for problem in state.problems[len(source.manifest.problems) :]:
            first = places.get(problem.object)
            related = () if first is None or first.origin == problem.origin else (first,)
            yield CheckFinding(Rule.DUPLICATE_OBJECT, Severity.ERROR, problem, related)
    if node is None:
        return
    lines = {(manifest.origin, item.key): item.line for manifest in known for item in manifest.objects}
    for given, other, inside in defined_elsewhere(sources, node):
        place = FileLine(other, lines.get((other, given.key), 0))
        if inside:
            message, severity = f"is already given in {place}", Severity.ERROR
            remedy = "rename one of them or take it away: the agent uses the first file only"
        else:
            message, severity = f"the agent runs it from {place}", Severity.WARNING
            how = "`pykubelet apply -f` changes it there" if other.startswith("/") else "change it there"
            remedy = f"{how}; beside it, this one would not be used"
        yield given.found(Rule.DUPLICATE_OBJECT, severity, "metadata.name", message, remedy, (place,))


def images(pod: GivenPod) -> Iterator[CheckFinding]:
    """Yield the images of a pod, and its image volumes, whose reference cannot be parsed."""
    spec = pod.pod.spec
    named = [(f"spec.containers[{index}].image", each.image) for index, each in enumerate(spec.containers)]
    named += [(f"spec.initContainers[{index}].image", each.image) for index, each in enumerate(spec.init_containers)]
    named += [
        (f"spec.volumes[{index}].image.reference", each.image.reference)
        for index, each in enumerate(spec.volumes)
        if each.image is not None
    ]
    for field, image in named:
        try:
            parse(image)
        except InvalidReference as error:
            remedy = "write it as [REGISTRY/]NAME[:TAG|@DIGEST], as in docker.io/library/busybox:1.36"
            message = f"{image!r} is no image reference: {error.detail}"
            yield pod.found(Rule.IMAGE_REFERENCE, Severity.ERROR, field, message, remedy)


def missing_objects(subject: Subject) -> Iterator[CheckFinding]:
    """Yield the ConfigMaps and Secrets, and keys of them, that pods need and that do not exist."""
    there = _present(subject)
    for pod in subject.pods:
        for reference in named_objects(pod.pod.spec):
            key = ObjectKey(reference.kind, pod.key.namespace, reference.name)
            if not reference.name or str(key) in subject.invalid:
                continue
            keys = there.get(key)
            if keys is not None:
                yield from _missing_keys(pod, reference, key, keys)
            elif not reference.optional:
                yield _missing(subject, pod, reference, key, there)
            elif reference.field.startswith("spec.imagePullSecrets"):
                message = f"{_where(subject)} no Secret {reference.name!r}; images are pulled without it"
                remedy = "write it into the manifest directory, or take the field away"
                yield pod.found(Rule.MISSING_OBJECT, Severity.WARNING, reference.field, message, remedy)


def _present(subject: Subject) -> Mapping[ObjectKey, Keys]:
    """Return the keys of all ConfigMaps and Secrets that the pods can use."""
    found = {ObjectKey(view.kind, view.namespace, view.name): frozenset(view.keys) for view in subject.objects}
    for given in subject.given:
        match given.item.value:
            case ConfigMap(data=data, binary_data=binary):
                found[given.key] = frozenset((*data, *binary))
            case Secret(data=secret):
                found[given.key] = frozenset(secret)
    return found


def _missing(
    subject: Subject, pod: GivenPod, reference: Reference, key: ObjectKey, there: Collection[ObjectKey]
) -> CheckFinding:
    same = sorted(each.namespace for each in there if (each.kind, each.name) == (key.kind, key.name))
    names = sorted(each.name for each in there if (each.kind, each.namespace) == (key.kind, key.namespace))
    close = closest(key.name, names)
    if same:
        remedy = f"there is one in namespace {same[0]!r}; a pod can only use those of its own namespace"
    elif close:
        remedy = f"did you mean {close}?"
    else:
        remedy = f"write a {key.kind} of that name into the manifest directory, or set optional: true"
    sure = subject.node is not None and not subject.node.cluster
    message = f"{_where(subject)} no {key.kind} {key.name!r} in namespace {key.namespace!r}"
    severity = Severity.ERROR if sure else Severity.WARNING
    return pod.found(Rule.MISSING_OBJECT, severity, reference.field, message, remedy)


def _missing_keys(pod: GivenPod, reference: Reference, key: ObjectKey, keys: Keys) -> Iterator[CheckFinding]:
    if reference.optional:
        return
    for name, field in reference.keys:
        if name in keys:
            continue
        close = closest(name, sorted(keys))
        listed = ", ".join(sorted(keys)) or "none"
        remedy = f"did you mean {close}?" if close else f"its keys are: {listed[:200]}"
        message = f"{key.kind} {key.name!r} has no key {name!r}"
        yield pod.found(Rule.MISSING_OBJECT, Severity.ERROR, field, message, remedy)


def _where(subject: Subject) -> str:
    if subject.node is None:
        return "the files given have"
    return "the manifests have" if subject.node.cluster else "the manifest directory has"
