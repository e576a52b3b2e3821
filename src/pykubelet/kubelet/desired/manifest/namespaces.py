"""Gives the objects of a manifest's text a namespace, and leaves the rest of the text as it is. Pure.

The text is read by the bounded reader first, which is what the agent reads it with: libyaml's composer, which knows the
positions, has no limit of depth and ends the process on deeply nested input. Afterwards the new text is read again, so
that no object is taken for one of another namespace.
"""

import json
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
import yaml

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.base.files.decoding import decode_json
from pykubelet.kubelet.desired.manifest.manifest_types import Report
from pykubelet.kubelet.desired.manifest.tree import ListNode, MapNode, Node, ScalarNode, is_null, read_documents

_LIST: Final = "List"
_ABSENT: Final = ("", "~", "null", "Null", "NULL")
"""Values of YAML that stand for an absent one."""

T = TypeVar("T")
_Fields = dict[str, msgspec.Raw]


def with_namespace(data: bytes, namespace: str, origin: str) -> bytes:
    """Return the manifest with this namespace for every object that names none.

    A text that cannot be read stays as it is: the parser reports why. Conflict: an object names another namespace.
    Invalid: the namespace cannot be put into the text.
    """
    found = _namespaces(data, origin)
    if found is None:
        return data
    for name, present in found:
        if present not in ("", namespace):
            raise Conflict(
                f"{origin}: {name or 'an object'} has the namespace {present}, not {namespace}; "
                "leave one of the two out"
            )
    edited = _edited(data.decode("utf-8-sig"), namespace, origin)
    for name, present in _namespaces(edited, origin) or ():
        if present != namespace:
            raise Invalid(
                f"{origin}: the namespace {namespace} cannot be put into the text of {name or 'an object'}; "
                "write metadata.namespace into it"
            )
    return edited


def _namespaces(data: bytes, origin: str) -> list[tuple[str, str]] | None:
    """Return name and namespace (empty: none) of every object with metadata; None: the text cannot be read."""
    report = Report(origin)
    documents = read_documents(data, report)
    if list(report):
        return None
    found = []
    for node in (node for document in documents for node in _objects(document.root)):
        metadata = _child(node, "metadata")
        if isinstance(metadata, MapNode) and metadata.entries:
            found.append((_text(metadata, "name"), _text(metadata, "namespace")))
    return found


def _objects(root: Node) -> list[Node]:
    """Return the nodes of a document's objects: itself, or the items of a list."""
    if not _text(root, "kind").endswith(_LIST):
        return [root]
    items = _child(root, "items")
    return items.items if isinstance(items, ListNode) else []


def _child(node: Node, name: str) -> Node | None:
    return node.entries[name][1] if isinstance(node, MapNode) and name in node.entries else None


def _text(node: Node, name: str) -> str:
    child = _child(node, name)
    return child.text if isinstance(child, ScalarNode) and not is_null(child) else ""


def _edited(text: str, namespace: str, origin: str) -> bytes:
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return _edited_json(text, namespace, origin)
    edits = {edit for root in roots for node in _yaml_objects(root) for edit in _edit(node, namespace)}
    for start, end, words in sorted(edits, reverse=True):
        text = text[:start] + words + text[end:]
    return text.encode()


def _yaml_objects(root: yaml.Node | None) -> list[yaml.Node]:
    kind, items = _value(root, "kind"), _value(root, "items")
    if kind is not None and str(kind.value).endswith(_LIST):
        return list(items.value) if isinstance(items, yaml.SequenceNode) else []
    return [root] if root is not None else []


def _edit(node: yaml.Node, namespace: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of the replacement that gives an object its namespace, if it needs one."""
    metadata = _value(node, "metadata")
    if not isinstance(metadata, yaml.MappingNode) or not metadata.value:
        return
    present, quoted = _value(metadata, "namespace"), json.dumps(namespace)
    if present is not None:
        if str(present.value) in _ABSENT and present.start_mark is not None and present.end_mark is not None:
            yield present.start_mark.index, present.end_mark.index, f" {quoted}"
        return
    first = metadata.value[0][0].start_mark
    if metadata.flow_style:
        yield first.index, first.index, f'"namespace": {quoted}, '
    else:
        yield first.index, first.index, f"namespace: {quoted}\n{' ' * first.column}"


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _edited_json(text: str, namespace: str, origin: str) -> bytes:
    """Return a text that only a reader of JSON accepts, with the namespace; its other values stay as written."""
    try:
        root = _decoded(text.encode(), _Fields)
        if "kind" in root and _decoded(root["kind"], str).endswith(_LIST):
            items = [_decoded(item, _Fields) for item in _decoded(root["items"], list[msgspec.Raw])]
            root["items"] = _raw([_json_object(item, namespace) for item in items])
        else:
            root = _json_object(root, namespace)
    except (KeyError, UnicodeError, msgspec.MsgspecError) as error:
        raise Invalid(
            f"{origin}: the namespace {namespace} cannot be put into the text; write metadata.namespace into it"
        ) from error
    return msgspec.json.encode(root)


def _json_object(fields: _Fields, namespace: str) -> _Fields:
    metadata = _decoded(fields["metadata"], _Fields) if "metadata" in fields else {}
    if metadata and ("namespace" not in metadata or msgspec.json.decode(metadata["namespace"]) in (None, *_ABSENT)):
        fields["metadata"] = _raw(metadata | {"namespace": _raw(namespace)})
    return fields


def _decoded(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    return decode_json(data, kind)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
