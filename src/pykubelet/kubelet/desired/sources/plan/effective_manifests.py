"""Decisions of the sources: which version of a manifest is effective, and the resulting changes of pods. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.manifest.manifest_types import (
    LocalObject,
    Manifest,
    ManifestObject,
    ObjectKey,
    Problem,
    in_order,
)
from pykubelet.kubelet.desired.manifest.static import adopt
from pykubelet.kubelet.desired.sources.source_types import FileRecord, ManifestState, SourceContent
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import (
    ANNOTATION_MIRROR,
    ANNOTATION_SEEN,
    ANNOTATION_SOURCE,
    PodOp,
    PodUpdate,
    Source,
)
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

_LOCAL: Final = frozenset({ANNOTATION_SOURCE, ANNOTATION_SEEN, ANNOTATION_MIRROR})
_ORDER: Final = (PodOp.REMOVE, PodOp.ADD, PodOp.UPDATE, PodOp.DELETE, PodOp.RECONCILE)


def accept(previous: FileRecord | None, manifest: Manifest, digest: str) -> FileRecord:
    """Return the record after a manifest was read.

    A manifest without problems replaces the previous version. One with problems removes nothing: its valid objects are
    effective, together with those of the previous version that it does not replace.
    """
    if previous is not None:
        manifest = _keep_immutable(previous, manifest)
    if not manifest.problems or previous is None:
        return FileRecord(manifest, digest, manifest.objects)
    given = {item.key for item in manifest.objects}
    kept = tuple(item for item in previous.wanted if item.key not in given)
    return FileRecord(manifest, digest, manifest.objects + kept, frozenset(item.key for item in kept))


def _keep_immutable(previous: FileRecord, manifest: Manifest) -> Manifest:
    """Reject changes of immutable objects (KEP-1412)."""
    before = {item.key: item.value for item in previous.wanted}
    changed = [item for item in manifest.objects if _breaks_promise(before.get(item.key), item.value)]
    if not changed:
        return manifest
    problems = tuple(
        Problem(
            manifest.origin,
            "must not change while it is immutable; the version before stays in force",
            "rename it, or take it away, let the agent notice, and put it back",
            line=item.line,
            field="immutable",
            object=str(item.key),
        )
        for item in changed
    )
    objects = tuple(item for item in manifest.objects if item not in changed)
    return replace(manifest, objects=objects, problems=in_order(manifest.problems + problems))


def _breaks_promise(old: LocalObject | None, new: LocalObject) -> bool:
    """Whether an immutable object's content or its field ``immutable`` changes. Labels and annotations may change."""
    match old, new:
        case ConfigMap(immutable=True), ConfigMap():
            return not new.immutable or (old.data, old.binary_data) != (new.data, new.binary_data)
        case Secret(immutable=True), Secret():
            return not new.immutable or (old.data, old.string_data) != (new.data, new.string_data)
        case _:
            return False


def unreadable(previous: FileRecord | None, origin: str, reason: str) -> FileRecord:
    """Return the record after a manifest could not be read: its previous objects stay effective."""
    wanted = previous.wanted if previous else ()
    manifest = Manifest(origin, problems=(Problem(origin, reason),))
    return FileRecord(manifest, "", wanted, frozenset(item.key for item in wanted))


def assemble(records: Iterable[FileRecord], source: Source, node_name: str) -> SourceContent:
    """Return the content of a source from its manifests in the order of their names; the first of equal names wins."""
    owner: dict[ObjectKey, tuple[FileRecord, ManifestObject]] = {}
    pods: list[Pod] = []
    objects: list[ConfigMap | Secret] = []
    states: list[ManifestState] = []
    uids: dict[str, ObjectKey] = {}
    for record in records:
        origin = record.manifest.origin
        problems = list(record.manifest.problems)
        for item in record.wanted:
            first, used_item = owner.setdefault(item.key, (record, item))
            if first is not record:
                line = f":{used_item.line}" if used_item.line else ""
                message = f"is already given in {first.manifest.origin}{line}, which is used"
                problems.append(_problem(origin, item, message, "rename one of them or take it away"))
            elif isinstance(item.value, Pod):
                try:
                    pod = adopt(item.value, item.digest, source, origin, node_name)
                    _claim_uid(pod, item, uids)
                    pods.append(pod)
                except Invalid as error:
                    problems.append(_problem(origin, item, str(error)))
            else:
                objects.append(item.value)
        used = tuple(item.key for item in record.wanted if owner[item.key][0] is record)
        kept = tuple(key for key in used if key in record.kept)
        states.append(ManifestState(source, origin, used, kept, in_order(problems)))
    return SourceContent(source, tuple(pods), tuple(objects), tuple(states))


def _claim_uid(pod: Pod, item: ManifestObject, uids: dict[str, ObjectKey]) -> None:
    """Reserve a pod's uid, which a manifest may set itself. Raises Invalid if another pod has the same uid."""
    first = uids.setdefault(pod.metadata.uid, item.key)
    if first != item.key:
        raise Invalid(f"has the uid of {first}, {pod.metadata.uid!r}; take metadata.uid away from one of them")


def _problem(origin: str, item: ManifestObject, message: str, remedy: str = "") -> Problem:
    line, column = item.position("metadata.name")
    return Problem(origin, message, remedy, line=line, column=column, field="metadata.name", object=str(item.key))


class MergedPods(Struct, frozen=True):
    """A source's pods after a merge, and the resulting updates in order."""

    pods: Mapping[PodUID, Pod] = field(default_factory=dict)
    updates: tuple[PodUpdate, ...] = ()
    given: Mapping[PodUID, Pod] = field(default_factory=dict)
    """The pod objects as the source passed them, by whose identity the next merge recognizes unchanged ones."""


def merge(known: MergedPods | None, wanted: Sequence[Pod], source: Source, seen: str) -> MergedPods:
    """Compare a source's pods with its previous ones (None: this is its first set).

    Removals come first, so that the name of a changed static pod, which has a new uid, is free. ``seen`` is the time
    in text form that new pods get as their first-seen annotation.
    """
    before, shown = (known.pods, known.given) if known is not None else ({}, {})
    pods: dict[PodUID, Pod] = {}
    given: dict[PodUID, Pod] = {}
    changes: dict[PodOp, list[Pod]] = {op: [] for op in _ORDER}
    for pod in wanted:
        uid = PodUID(pod.metadata.uid)
        if uid in pods:
            continue
        given[uid] = pod
        if shown.get(uid) is pod:  # after an event of a watch, this is true for all pods but one
            pods[uid] = before[uid]
            continue
        pods[uid], op = _compare(before.get(uid), pod, source, seen)
        if op is not None:
            changes[op].append(pods[uid])
    changes[PodOp.REMOVE] = [pod for uid, pod in before.items() if uid not in pods]
    updates = [PodUpdate(op, source, tuple(changes[op])) for op in _ORDER if changes[op]]
    if known is None and not any(changes[op] for op in (PodOp.ADD, PodOp.UPDATE, PodOp.DELETE)):
        updates.insert(0, PodUpdate(PodOp.ADD, source, ()))  # means that the source has been read and has no pods
    return MergedPods(pods, tuple(updates), given)


def _compare(old: Pod | None, new: Pod, source: Source, seen: str) -> tuple[Pod, PodOp | None]:
    """Return the pod with the agent's annotations, and the kind of its change."""
    own = {ANNOTATION_SOURCE: source.value, ANNOTATION_SEEN: seen}
    if old is not None:
        own |= {key: value for key, value in old.metadata.annotations.items() if key in _LOCAL}
    pod = replace(new, metadata=replace(new.metadata, annotations=new.metadata.annotations | own))
    if old is None:
        return pod, PodOp.ADD
    if _differ(old, pod):
        return pod, PodOp.DELETE if pod.metadata.deletion_timestamp is not None else PodOp.UPDATE
    return pod, PodOp.RECONCILE if old.status != pod.status else None


def _differ(old: Pod, new: Pod) -> bool:
    """Whether a field that the node acts on has changed."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.deletion_grace_period_seconds != new.metadata.deletion_grace_period_seconds
        or _gates(old) != _gates(new)
    )


def _gates(pod: Pod) -> Mapping[str, str]:
    """Return the status of the conditions that the pod's readiness gates name (KEP-580)."""
    if not pod.spec.readiness_gates:
        return {}
    wanted = {gate.condition_type for gate in pod.spec.readiness_gates}
    return {c.type: c.status for c in pod.status.conditions if c.type in wanted}
