"""Replaces, adds and removes single objects in the text of a manifest, and leaves the rest of the text as it is. Pure.

A document that is one object is cut out of the text, so that comments around it survive. An object in a list is edited
in the parsed document, which is then written again: comments in that document are lost, its values are not.
Objects are recognized by kind, namespace and name alone, so that an object with problems can be replaced, too.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import yaml
from msgspec import Struct

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey, Problem, Report
from pykubelet.kubelet.desired.manifest.tree import (
    ListNode,
    ManifestDocument,
    MapNode,
    Node,
    ScalarNode,
    is_null,
    read_documents,
)

_LIST: Final = "List"
_START: Final = "---"


class ObjectPlace(Struct, frozen=True):
    """Place of an object in a manifest: its document from 1, and its index if the document is a list."""

    key: ObjectKey
    document: int
    item: int | None = None
    implied_kind: str = ""
    """The kind that a list such as ``PodList`` gives to an item that names none."""


def places(data: bytes, origin: str) -> tuple[ObjectPlace, ...]:
    """Return the objects of a manifest in their order, valid or not; objects without kind or name are left out.

    Invalid: the text cannot be read to its end, so that an object may be missing.
    """
    report = Report(origin)
    documents = read_documents(data, report)
    broken = _first(report)
    if broken is not None:
        raise Invalid(str(broken))
    return _places(documents)


def readable_places(data: bytes, origin: str) -> tuple[ObjectPlace, ...]:
    """Return the objects of a manifest as `places` does, of a broken one those that can be read."""
    return _places(read_documents(data, Report(origin)))


def _places(documents: Iterable[ManifestDocument]) -> tuple[ObjectPlace, ...]:
    found: list[ObjectPlace] = []
    for document in documents:
        kind = _text(document.root, "kind")
        if not kind.endswith(_LIST):
            _add(found, document.root, ObjectPlace(ObjectKey(kind, "", ""), document.index))
            continue
        items = _child(document.root, "items")
        for index, node in enumerate(items.items if isinstance(items, ListNode) else ()):
            implied = kind.removesuffix(_LIST)
            _add(found, node, ObjectPlace(ObjectKey(implied, "", ""), document.index, index, implied))
    return tuple(found)


def object_text(data: bytes, place: ObjectPlace, origin: str) -> str:
    """Return the text of one object as a document of its own, without ``---``. Conflict: it cannot be cut out."""
    document = _Text(data, origin).document(place.document)
    if place.item is None:
        return document
    item = _items(_compose(document, origin), origin)[place.item]
    if not isinstance(item, yaml.MappingNode):
        raise Conflict(f"{origin}: an item of a list is not an object")
    names = {key.value for key, _ in item.value}
    for name, value in (("kind", place.implied_kind), ("apiVersion", "v1")):
        if value and name not in names:
            item.value.insert(0, (_scalar(name), _scalar(value)))
    return str(yaml.serialize(item, Dumper=yaml.CSafeDumper, allow_unicode=True))


def with_object(data: bytes, place: ObjectPlace, text: str, origin: str) -> bytes:
    """Return the manifest with another text for the object at a place. Conflict: it can only be edited by hand."""
    whole = _Text(data, origin)
    if place.item is None:
        return whole.replaced(place.document, text)
    root = _compose(whole.document(place.document), origin)
    _items(root, origin)[place.item] = _compose(text, origin)
    return whole.replaced(place.document, _serialized(root))


def with_added(data: bytes, text: str, origin: str) -> bytes:
    """Return the manifest with the object added as its last document. Conflict: the manifest is not UTF-8 text."""
    try:
        before = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Conflict(f"{origin} is not UTF-8 text; save it as UTF-8") from error
    if not before.strip():
        return _ended(text, last=True).encode()
    if not _can_end(before):
        whole = _Text(data, origin)
        before = whole.replaced(whole.count, _ended(whole.document(whole.count))).decode()
    return f"{_ended(before)}{_START}\n{_ended(text, last=True)}".encode()


def with_restart_policy(text: str, policy: str) -> str:
    """Return the document of a pod with this restart policy, unless it has one itself."""
    root = _compose(text, "the pod")
    spec = next((value for key, value in root.value if key.value == "spec"), None)
    if not isinstance(spec, yaml.MappingNode) or any(key.value == "restartPolicy" for key, _ in spec.value):
        return text
    spec.value.append((_scalar("restartPolicy"), _scalar(policy)))
    return _serialized(root)


def without_object(data: bytes, place: ObjectPlace, origin: str) -> bytes | None:
    """Return the manifest without the object at a place; None: no object is left.

    Conflict: it can only be edited by hand.
    """
    others = [other for other in places(data, origin) if other != place]
    if not others and len(read_documents(data, Report(origin))) == 1:
        return None
    whole = _Text(data, origin)
    if place.item is None or not any(other.document == place.document for other in others):
        return whole.removed(place.document)
    root = _compose(whole.document(place.document), origin)
    del _items(root, origin)[place.item]
    return whole.replaced(place.document, _serialized(root))


class _Text:
    """The text of a manifest, divided into its documents."""

    def __init__(self, data: bytes, origin: str) -> None:
        self._origin = origin
        self._text = data.decode("utf-8-sig")
        self._starts: list[int] = []
        self._explicit: list[bool] = []
        self._ends: list[int | None] = []
        """Position of each document's ``...``; None: it has none."""
        try:
            self._divide()
        except yaml.YAMLError:
            # JSON that YAML does not accept: the text is one document.
            self._starts, self._explicit, self._ends = [0], [False], [None]
        self._starts.append(len(self._text))

    def _divide(self) -> None:
        for event in yaml.parse(self._text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                self._starts.append(_index(event) if event.explicit or self._starts else 0)
                self._explicit.append(bool(event.explicit))
            elif isinstance(event, yaml.DocumentEndEvent):
                self._ends.append(_index(event) if event.explicit else None)

    @property
    def count(self) -> int:
        """Number of documents in the text."""
        return len(self._explicit)

    def document(self, index: int) -> str:
        """Return the text of a document, without the marks of its start and end."""
        start, end = self._span(index)
        end = self._ends[index - 1] or end
        if self._explicit[index - 1]:
            start += len(_START)
        body = self._text[start:end]
        first, newline, rest = body.partition("\n")
        return body if first.strip() or not newline else rest

    def replaced(self, index: int, text: str) -> bytes:
        """Return the whole with another text for a document."""
        start, end = self._span(index)
        mark = f"{_START}\n" if self._explicit[index - 1] else ""
        rest = self._text[end:]
        return (self._text[:start] + mark + _ended(text, last=not rest) + rest).encode()

    def removed(self, index: int) -> bytes:
        """Return the whole without a document."""
        start, end = self._span(index)
        return (self._text[:start] + self._text[end:]).encode()

    def _span(self, index: int) -> tuple[int, int]:
        start, end = self._starts[index - 1], self._starts[index]
        if any(self._text.startswith("%", each) for each in self._starts):
            raise Conflict(f"{self._origin} uses directives of YAML (%…); edit it by hand")
        return start, end


def _compose(text: str, origin: str) -> yaml.Node:
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Conflict(f"{origin} is JSON that cannot be edited as YAML; edit it by hand") from error
    if root is None:
        raise Conflict(f"{origin}: a document is empty")
    return root


def _serialized(root: yaml.Node) -> str:
    return str(yaml.serialize(root, Dumper=yaml.CSafeDumper, allow_unicode=True))


def _items(root: yaml.Node, origin: str) -> list[yaml.Node]:
    """Return the items of a list's document, to be changed in place."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            items: list[yaml.Node] = value.value
            return items
    raise NotFound(f"{origin}: a list has no items of its own; edit it by hand")


class _Mark(Protocol):
    """The mark of either of the library's parsers."""

    index: int


def _index(event: yaml.Event) -> int:
    return _at(event.start_mark)


def _at(mark: _Mark | None) -> int:
    """Return the index of a mark in the text."""
    return mark.index if mark else 0


def _scalar(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)


def _add(found: list[ObjectPlace], node: Node, place: ObjectPlace) -> None:
    metadata = _child(node, "metadata")
    kind = _text(node, "kind") or place.key.kind
    name = _text(metadata, "name")
    if kind and name:
        key = ObjectKey(kind, _text(metadata, "namespace") or "default", name)
        found.append(ObjectPlace(key, place.document, place.item, place.implied_kind))


def _child(node: Node | None, name: str) -> Node | None:
    return node.entries[name][1] if isinstance(node, MapNode) and name in node.entries else None


def _text(node: Node | None, name: str) -> str:
    child = _child(node, name)
    return child.text if isinstance(child, ScalarNode) and not is_null(child) else ""


def _ended(text: str, *, last: bool = False) -> str:
    """Return the text with the end of its last line, so that another document can follow; ``last``: none does.

    Where that would change a value, a block scalar at the end, it is left out, or the text is written again.
    """
    if not text or text.endswith("\n"):
        return text
    if _can_end(text):
        return f"{text}\n"
    return text if last else _serialized(_compose(text, "the manifest"))


def _can_end(text: str) -> bool:
    """Whether the text has the same values with the end of its last line."""
    return text.endswith("\n") or _scalars(text) == _scalars(f"{text}\n")


def _scalars(text: str) -> list[str]:
    """Return all scalars of a text; none of one that is no YAML: JSON has no block scalars."""
    try:
        return [each.value for each in yaml.parse(text, Loader=yaml.CSafeLoader) if isinstance(each, yaml.ScalarEvent)]
    except yaml.YAMLError:
        return []


def _first(report: Report) -> Problem | None:
    return next(iter(report), None)
