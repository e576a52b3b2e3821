"""Parses text into trees of values with their lines, the first step of reading a manifest. Pure.

YAML is read from libyaml's event stream rather than through PyYAML's composer, so that limits apply before hostile
input costs memory or stack: recursion is bounded by ``MAX_DEPTH``. JSON is read the same way, since it is nearly YAML;
where it is not (surrogate escapes),
Python's JSON reader takes over, without lines.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn, TypeAlias

import yaml
from msgspec import Struct, field

from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES, MAX_DEPTH, MAX_NODES, Problem, Report

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MERGE: Final = "<<"
_TOO_DEEP: Final = "no Kubernetes object needs that"


class ScalarNode(Struct):
    """One scalar; ``plain`` means not quoted, so that ``8080`` is a number and ``"8080"`` is not."""

    text: str
    plain: bool
    line: int = 0
    column: int = 0
    tag: str = ""


class ListNode(Struct):
    """A sequence."""

    items: list["Node"]
    line: int = 0
    column: int = 0


class MapNode(Struct):
    """A mapping; keys are unique, merge keys (``<<``) already resolved."""

    entries: dict[str, tuple[ScalarNode, "Node"]]
    line: int = 0
    column: int = 0


Node: TypeAlias = ScalarNode | ListNode | MapNode


class ManifestDocument(Struct, frozen=True):
    """One document of a manifest; ``index`` counts from 1."""

    index: int
    root: Node


class _UnreadableError(Exception):
    """The rest of the text cannot be read; the problem has been reported."""


def read_documents(data: bytes, report: Report) -> list[ManifestDocument]:
    """Return the documents of a text. Problems go to ``report``; documents before a syntax error are returned."""
    text = _decode(data, report)
    if text is None:
        return []
    reader = _Reader(report)
    documents: list[ManifestDocument] = []
    try:
        for document in reader.documents(text):
            documents.append(document)
    except _UnreadableError:
        pass
    except yaml.YAMLError as error:
        from_json = _read_json(text, report)
        if from_json is not None:
            return [] if is_null(from_json.root) else [from_json]
        report.add(_syntax_problem(error, report.origin, reader.index))
    return documents


def _decode(data: bytes, report: Report) -> str | None:
    if len(data) > MAX_BYTES:
        report.add(Problem(report.origin, f"is larger than {MAX_BYTES // 2**20} MiB", "split it into several files"))
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        report.add(Problem(report.origin, "is not UTF-8 text", "save it as UTF-8", line=line))
        return None
    bad = _CONTROL.search(text)
    if bad:
        line, column = _position(text, bad.start())
        code = f"U+{ord(bad.group()):04X}"
        problem = Problem(
            report.origin, f"contains the control character {code}", "is it a binary file?", line=line, column=column
        )
        report.add(problem)
        return None
    return text


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Frame(Struct):
    """A collection whose end has not been read yet."""

    node: ListNode | MapNode
    key: ScalarNode | None = None
    merges: list[Node] = field(default_factory=list)


class _Reader:
    """The builder of trees from YAML events, one document after the other."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.index = 0
        self.nodes = 0
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Node] = {}
        self.root: Node | None = None

    def documents(self, text: str) -> Iterator[ManifestDocument]:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            match event:
                case yaml.DocumentStartEvent():
                    self.index += 1
                    self.stack, self.anchors, self.root = [], {}, None
                case yaml.DocumentEndEvent():
                    if self.root is not None and not is_null(self.root):
                        yield ManifestDocument(self.index, self.root)
                case yaml.ScalarEvent():
                    line, column = _mark(event)
                    tag = event.tag or ""
                    self.place(ScalarNode(event.value, not event.style, line, column, tag), event.anchor)
                case yaml.AliasEvent():
                    self.place(self.resolve(event), None)
                case yaml.SequenceStartEvent():
                    self.open(ListNode([], *_mark(event)), event.anchor)
                case yaml.MappingStartEvent():
                    self.open(MapNode({}, *_mark(event)), event.anchor)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self.close()

    def open(self, node: ListNode | MapNode, anchor: str | None) -> None:
        self.check_depth(node)
        self.place(node, anchor)
        self.stack.append(_Frame(node))

    def check_depth(self, node: Node) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self.stop(node, f"is nested more than {MAX_DEPTH} levels deep", _TOO_DEEP)

    def close(self) -> None:
        frame = self.stack.pop()
        if isinstance(frame.node, MapNode):
            for source in frame.merges:
                self.merge(frame.node, source)

    def place(self, node: Node, anchor: str | None) -> None:
        """Add a node to its parent as the root, an item, a key or a value."""
        self.count(node)
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if isinstance(frame.node, ListNode):
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = self.as_key(node)
        else:
            key, frame.key = frame.key, None
            self.add_entry(frame, key, node)

    def add_entry(self, frame: _Frame, key: ScalarNode, value: Node) -> None:
        assert isinstance(frame.node, MapNode)
        if key.plain and key.text == _MERGE:
            frame.merges.append(value)
        elif key.text in frame.node.entries:
            line = frame.node.entries[key.text][0].line
            first = f", first on line {line}" if line else ""
            self.problem(key, f"the key {shown(key.text)} is given twice{first}", "take one away")
        else:
            frame.node.entries[key.text] = (key, value)

    def as_key(self, node: Node) -> ScalarNode:
        if isinstance(node, ScalarNode):
            return node
        self.problem(node, "a key must be text, not a list or a mapping", "quote it if it begins with [ or {")
        return ScalarNode("", True, node.line, node.column)

    def merge(self, target: MapNode, source: Node) -> None:
        """Apply a merge key (YAML 1.1): entries of ``source`` that the mapping does not have itself."""
        parts = source.items if isinstance(source, ListNode) else [source]
        for part in parts:
            if not isinstance(part, MapNode):
                self.problem(source, "a merge key << takes a mapping or a list of mappings", "write the fields out")
                return
            for name, entry in part.entries.items():
                self.count(part)
                target.entries.setdefault(name, entry)

    def resolve(self, event: yaml.AliasEvent) -> Node:
        line, column = _mark(event)
        place = ScalarNode("", True, line, column)
        node = self.anchors.get(event.anchor or "")
        if node is None:
            self.stop(place, f"the alias *{event.anchor} has no anchor before it", "write the value out")
        if any(frame.node is node for frame in self.stack):
            self.stop(place, f"the alias *{event.anchor} contains itself", "write the value out")
        return node

    def count(self, node: Node) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.stop(node, f"holds more than {MAX_NODES} values", "split it into several files")

    def problem(self, node: Node, message: str, remedy: str) -> None:
        self.report.add(
            Problem(self.report.origin, message, remedy, document=self.index, line=node.line, column=node.column)
        )

    def stop(self, node: Node, message: str, remedy: str) -> NoReturn:
        self.problem(node, message, remedy)
        raise _UnreadableError


def _mark(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def is_null(node: Node) -> bool:
    """Whether the node is YAML's or JSON's null."""
    if not isinstance(node, ScalarNode):
        return False
    if node.tag:
        return node.tag == "tag:yaml.org,2002:null"
    return node.plain and node.text in ("", "~", "null", "Null", "NULL")


def shown(text: str) -> str:
    """Quote a text, truncated to a length suitable for a message."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


_REMEDIES: Final = (
    ("tab character", "indent with spaces, not with tabs"),
    ("cannot start any token", "indent with spaces, not with tabs, and quote values that begin with @, ` or %"),
    ("mapping values are not allowed", "check the indentation, and quote values that contain ': '"),
    ("could not find expected ':'", "check the indentation, and that each key is followed by ': '"),
    ("did not find expected key", "check the indentation of this line and of those above it"),
    ("did not find expected '-' indicator", "check the indentation of the list"),
    ("undefined alias", "define the anchor before it is used"),
    ("unexpected end of stream", "a quote or bracket is not closed, or the file is cut off"),
    ("found unexpected end", "a quote or bracket is not closed, or the file is cut off"),
    ("expected ',' or", "a bracket is not closed, or the file is cut off"),
)


def _syntax_problem(error: yaml.YAMLError, origin: str, index: int) -> Problem:
    message, line, column = str(error), 0, 0
    if isinstance(error, yaml.MarkedYAMLError):
        context, mark = error.context or "", error.problem_mark or error.context_mark
        if error.context_mark is not None and context:
            context += f" begun on line {error.context_mark.line + 1}"
        message = ", ".join(part for part in (context, error.problem) if part)
        if mark is not None:
            line, column = mark.line + 1, mark.column + 1
    message = " ".join(message.split())
    remedy = next((advice for sign, advice in _REMEDIES if sign in message), "")
    return Problem(origin, f"not valid YAML: {message}", remedy, document=index, line=line, column=column)


def _read_json(text: str, report: Report) -> ManifestDocument | None:
    """Return the document if the text is JSON; None if not, so that the YAML reader's problem is reported."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    reader = _Reader(report)
    reader.index = 1
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _JsonObject(pairs),
            parse_int=lambda digits: ScalarNode(digits, True),
            parse_float=lambda digits: ScalarNode(digits, True),
        )
        return ManifestDocument(1, _from_json(value, reader))
    except RecursionError:
        reader.problem(ScalarNode("", True), f"is nested more than {MAX_DEPTH} levels deep", _TOO_DEEP)
        return ManifestDocument(1, ScalarNode("", True))
    except ValueError:
        return None
    except _UnreadableError:
        return ManifestDocument(1, ScalarNode("", True))


class _JsonObject(Struct):
    pairs: list[tuple[str, object]]


def _from_json(value: object, reader: _Reader) -> Node:
    node: Node
    match value:
        case _JsonObject(pairs):
            frame = _Frame(node := MapNode({}))
            _enter(frame, reader)
            for key, each in pairs:
                reader.add_entry(frame, ScalarNode(key, False), _from_json(each, reader))
            reader.stack.pop()
        case list():
            _enter(_Frame(node := ListNode([])), reader)
            node.items.extend(_from_json(each, reader) for each in value)
            reader.stack.pop()
        case ScalarNode():
            node = value
        case str():
            node = ScalarNode(value, False)
        case _:
            node = ScalarNode(json.dumps(value), True)
    reader.count(node)
    return node


def _enter(frame: _Frame, reader: _Reader) -> None:
    reader.check_depth(frame.node)
    reader.stack.append(frame)
