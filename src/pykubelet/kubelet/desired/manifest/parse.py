"""Parses a manifest's text into objects, validated and with defaults set. Pure.

A pod's way through the node begins here: ``sources`` passes bytes, and receives typed objects that every later stage
may trust, with every problem found. An object with a problem is left out; the others of the same file are used.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.desired.manifest.defaults import with_defaults
from pykubelet.kubelet.desired.manifest.foreign import foreign_file, foreign_kind
from pykubelet.kubelet.desired.manifest.manifest_types import (
    MAX_NODES,
    Finding,
    LocalObject,
    Manifest,
    ManifestObject,
    ObjectKey,
    Problem,
    Report,
    fault_message,
    key_of,
    position_of,
)
from pykubelet.kubelet.desired.manifest.tree import (
    ListNode,
    ManifestDocument,
    MapNode,
    Node,
    ScalarNode,
    is_null,
    read_documents,
    shown,
)
from pykubelet.kubelet.desired.manifest.validate import validate
from pykubelet.kubelet.desired.manifest.walk import TooLargeError, Walker
from pykubelet.models import codec
from pykubelet.models.core_v1 import ConfigMap, Pod, PodStatus, Secret

_MODELS: Final[Mapping[str, type[LocalObject]]] = {"Pod": Pod, "ConfigMap": ConfigMap, "Secret": Secret}
_LISTS: Final[Mapping[str, str]] = {
    "List": "",
    "PodList": "Pod",
    "ConfigMapList": "ConfigMap",
    "SecretList": "Secret",
}


def parse(data: bytes, origin: str, *, positions: bool = False) -> Manifest:
    """Read a manifest: YAML or JSON, any number of documents, single objects and lists of Pods, ConfigMaps, Secrets.

    ``origin`` is the path or URL that problems name; ``positions``: keep the position of each field, which takes more
    memory than the object. Never raises: whatever is wrong becomes a problem.
    """
    report = Report(origin)
    objects: tuple[ManifestObject, ...] = ()
    documents: Sequence[ManifestDocument] = ()
    try:
        documents = read_documents(data, report)
        objects = _objects(documents, report, positions)
    except Exception as error:  # a defect of the agent must not affect other manifests
        report.add(Problem(origin, fault_message(error)))
    problems = report.ordered()
    return Manifest(origin, objects, problems, empty=not (documents or problems))


def _objects(documents: Sequence[ManifestDocument], report: Report, positions: bool) -> tuple[ManifestObject, ...]:
    damaged = frozenset(problem.document for problem in report)
    reader = _ManifestReader(report, damaged, positions=positions)
    for document in documents:
        if report.full:
            break
        reader.document(document)
    return tuple(reader.objects.values())


class _Place(Struct, frozen=True):
    """Position of an object: its document, its node, the kind that its list implies, and the path to it."""

    document: int
    node: Node
    kind: str = ""
    path: str = ""


class _ManifestReader:
    """The reader of the objects of one manifest, by key."""

    def __init__(self, report: Report, damaged: frozenset[int], *, positions: bool) -> None:
        """``damaged`` are documents with earlier problems: they are checked, but their objects are not used."""
        self.report = report
        self.damaged = damaged
        self.positions = positions
        self.objects: dict[ObjectKey, ManifestObject] = {}
        self.budget = MAX_NODES

    def document(self, document: ManifestDocument) -> None:
        for place in self._places(document):
            try:
                self._object(place)
            except Exception as error:  # a defect of the agent must not affect other objects
                self._problem(place, Finding("", fault_message(error)), place.node)

    def _places(self, document: ManifestDocument) -> Iterator[_Place]:
        """Yield the objects of a document: itself, or the items of a list."""
        root = document.root
        kind = _text(root, "kind")
        if not isinstance(root, MapNode) or kind not in _LISTS:
            yield _Place(document.index, root)
            return
        place = _Place(document.index, root)
        items = root.entries.get("items")
        for name, (key, _) in root.entries.items():
            if name not in ("apiVersion", "kind", "metadata", "items"):
                self._problem(place, Finding(name, "unknown field"), key)
        if items is None or is_null(items[1]):
            return
        if not isinstance(items[1], ListNode):
            self._problem(place, Finding("items", "must be a list", "begin each item with '- '"), items[0])
            return
        for index, node in enumerate(items[1].items):
            yield _Place(document.index, node, _LISTS[kind], f"items[{index}]")

    def _object(self, place: _Place) -> None:
        model = self._model(place)
        if isinstance(model, Finding):
            self._problem(place, model, _key(place.node, model.field))
            return
        walker = Walker(self.budget)
        try:
            value = walker.read_object(place.node, model)
        except TooLargeError:
            finding = Finding("", f"holds more than {MAX_NODES} values once its aliases are written out")
            self._problem(place, finding, place.node)
            self.budget = 0
            return
        self.budget = walker.budget
        findings = list(walker.findings)
        digest = ""
        name = _text(_child(place.node, "metadata"), "name")
        label = f"{model.__name__} {name}" if name else model.__name__
        if isinstance(value, Pod | ConfigMap | Secret):
            digest = "" if findings else _digest(value)
            value = with_defaults(value)
            label = str(key_of(value)) if name else label
            findings += [each for each in validate(value) if not _consequence(each, walker.findings)]
        for finding in findings:
            self._problem(place, finding, position_of(finding.field, walker.lines) or place.node, label)
        if isinstance(value, Pod | ConfigMap | Secret) and not findings and place.document not in self.damaged:
            self._keep(place, value, digest, walker.lines if self.positions else {})

    def _keep(self, place: _Place, value: LocalObject, digest: str, positions: Mapping[str, tuple[int, int]]) -> None:
        key = key_of(value)
        if key in self.objects:
            line = self.objects[key].line
            first = f", first on line {line}" if line else ""
            finding = Finding("metadata.name", f"is given twice in this file{first}", "rename one of them")
            self._problem(place, finding, place.node, str(key))
        else:
            self.objects[key] = ManifestObject(key, value, digest, place.node.line, positions)

    def _model(self, place: _Place) -> type[LocalObject] | Finding:
        """Return the type for kind and apiVersion, or why a node does not support it."""
        if not isinstance(place.node, MapNode):
            return Finding("", "must be a Kubernetes object: a mapping with apiVersion, kind and metadata")
        if (foreign := foreign_file(place.node)) is not None and not place.kind:
            return foreign
        kind = _text(place.node, "kind") or place.kind
        version = _text(place.node, "apiVersion") or ("v1" if place.kind else "")
        if not kind:
            return Finding("kind", "is required", "write kind: Pod, ConfigMap or Secret")
        if not version:
            return Finding("apiVersion", "is required", "write apiVersion: v1")
        model = _MODELS.get(kind)
        if model is None:
            return foreign_kind(kind, _MODELS)
        if version != "v1":
            return Finding("apiVersion", f"{shown(version)} has no {kind}", "write apiVersion: v1")
        return model

    def _problem(self, place: _Place, finding: Finding, at: Node | tuple[int, int], label: str = "") -> None:
        line, column = at if isinstance(at, tuple) else (at.line, at.column)
        path = ".".join(part for part in (place.path, finding.field) if part)
        self.report.add(
            Problem(
                self.report.origin,
                finding.message,
                finding.remedy,
                document=place.document,
                line=line,
                column=column,
                field=path,
                object=label,
            )
        )


def _digest(value: LocalObject) -> str:
    """Return a hash of the manifest's content without defaults, so that a new release's defaults change no uid."""
    plain = replace(value, api_version="", kind="", **({"status": PodStatus()} if isinstance(value, Pod) else {}))
    return hashlib.sha256(codec.encode_stable(plain)).hexdigest()


def _consequence(finding: Finding, earlier: list[Finding]) -> bool:
    """Whether a broken rule only follows from a field that could not be read.

    That is so if the field itself, or one around or within it, was reported; and if it is missing where an
    unknown field stands beside it, which probably is the same one misspelt.
    """
    parent = finding.field.rpartition(".")[0]
    for cause in earlier:
        if _within(finding.field, cause.field) or _within(cause.field, finding.field):
            return True
        is_sibling = cause.message == "unknown field" and cause.field.rpartition(".")[0] == parent
        if is_sibling and "required" in finding.message:
            return True
    return False


def _within(path: str, outer: str) -> bool:
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[")


def _child(node: Node, name: str) -> Node | None:
    if isinstance(node, MapNode) and name in node.entries:
        return node.entries[name][1]
    return None


def _text(node: Node | None, name: str) -> str:
    """Return a text field of a mapping; empty if it is absent or not text."""
    child = _child(node, name) if node is not None else None
    return child.text if isinstance(child, ScalarNode) and not is_null(child) else ""


def _key(node: Node, name: str) -> Node:
    """Return the position of a field; that of the object if the field is absent."""
    return node.entries[name][0] if isinstance(node, MapNode) and name in node.entries else node
