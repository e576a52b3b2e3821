"""Converts trees of values to typed objects strictly, the second step of reading a manifest. Pure.

Unknown fields and wrong types are all reported, each with its line, path and remedy, where a decoder would stop
at the first. Scalars are read as Kubernetes' own YAML reader does: YAML 1.1 booleans, octal file modes such as
``0644``, no sexagesimal numbers, dates stay text.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert
from pykubelet.base.suggestion import closest
from pykubelet.base.text import encodable, printable
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_NODES, MAX_PROBLEMS, Finding
from pykubelet.kubelet.desired.manifest.shape import Field, Shape, ShapeKind, fields_of
from pykubelet.kubelet.desired.manifest.tree import ListNode, MapNode, Node, ScalarNode, is_null, shown
from pykubelet.models import quantity
from pykubelet.models.core_v1 import Secret
from pykubelet.models.scalars import KubeStruct, MicroTime

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0o?[0-7][0-7_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0b[01][01_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_MAX_DIGITS: Final = 64
_INT64: Final = range(-(1 << 63), 1 << 63)


class _MissingValue:
    """Placeholder of a value that is absent or could not be read."""


MISSING: Final = _MissingValue()


class TooLargeError(Exception):
    """Aliases make the document larger than ``MAX_NODES`` values."""


class Walker:
    """The reader of one object; it fills ``findings`` and ``lines`` (field path to line and column)."""

    def __init__(self, budget: int = MAX_NODES) -> None:
        """``budget`` is the number of values that may still be read; aliases count as often as they are used."""
        self.findings: list[Finding] = []
        self.lines: dict[str, tuple[int, int]] = {}
        self.budget = budget
        self._private = False
        self._readers: Mapping[ShapeKind, Callable[[ScalarNode, str], object]] = {
            ShapeKind.STRING: self._string,
            ShapeKind.INTEGER: self._integer,
            ShapeKind.NUMBER: self._number,
            ShapeKind.BOOLEAN: self._boolean,
            ShapeKind.BYTES: self._bytes,
            ShapeKind.TIME: self._time,
            ShapeKind.MICRO_TIME: self._micro_time,
            ShapeKind.QUANTITY: self._quantity,
            ShapeKind.INT_OR_STRING: self._int_or_string,
        }

    def read_object(self, node: Node, model: type[KubeStruct]) -> KubeStruct | None:
        """Return the object of a tree; None if it cannot be built even without the invalid fields.

        Raises TooLargeError. The object is only sound when ``findings`` is empty afterwards.
        """
        self._private = model is Secret  # values of secrets must not get into messages, events and logs
        value = self._read(node, Shape(ShapeKind.OBJECT, model=model), "")
        return value if isinstance(value, KubeStruct) else None

    def _read(self, node: Node, shape: Shape, path: str) -> object:
        self.budget -= 1
        if self.budget < 0:
            raise TooLargeError
        if is_null(node):
            return MISSING
        match shape.kind:
            case ShapeKind.OBJECT:
                return self._object(node, shape, path)
            case ShapeKind.LIST:
                return self._list(node, shape, path)
            case ShapeKind.MAP:
                return self._map(node, shape, path)
            case ShapeKind.ANY:
                return self._any(node, path)
        if not isinstance(node, ScalarNode):
            return self._fail(path, f"must be {_NAMES[shape.kind]}, not {self._name_of(node)}")
        if node.tag and node.tag not in _KNOWN_TAGS:
            return self._fail(path, f"has the tag {shown(node.tag)}, which is not used here", "take the tag away")
        return self._readers[shape.kind](node, path)

    def _name_of(self, node: Node) -> str:
        """Describe a value, for a message about a wrong type."""
        match node:
            case MapNode():
                return "a mapping"
            case ListNode():
                return "a list"
        match plain_value(node):
            case None:
                return "null"
            case bool():
                kind, text = "truth value", node.text
            case int() | float():
                kind, text = "number", shown(node.text)[1:-1]
            case _:
                kind, text = "text", shown(node.text)
        return f"a {kind}" if self._private else f"the {kind} {text}"

    def _fail(self, path: str, message: str, remedy: str = "") -> _MissingValue:
        self.findings.append(Finding(path, message, remedy))
        return MISSING

    def _object(self, node: Node, shape: Shape, path: str) -> object:
        assert shape.model is not None
        if not isinstance(node, MapNode):
            return self._fail(path, f"must be a mapping of fields, not {self._name_of(node)}", _indent_advice(node))
        fields = fields_of(shape.model)
        values: dict[str, object] = {}
        for name, (key, child) in node.entries.items():
            where = f"{path}.{printable(name)}" if path else printable(name)
            self.lines[where] = (key.line, key.column)
            field = fields.get(name)
            if field is None:
                # Suggestions are expensive, and the hundredth is of no use.
                remedy = _suggest(name, fields) if len(self.findings) < MAX_PROBLEMS else ""
                self._fail(where, "unknown field", remedy)
                continue
            value = self._read(child, field.shape, where)
            if value is not MISSING:
                values[field.attribute] = value
        for name, field in fields.items():
            if field.required and field.attribute not in values:
                where = f"{path}.{name}" if path else name
                if not any(finding.field == where for finding in self.findings):
                    self._fail(where, "is required")
                return MISSING
        return shape.model(**values)

    def _list(self, node: Node, shape: Shape, path: str) -> object:
        assert shape.item is not None
        if not isinstance(node, ListNode):
            return self._fail(path, f"must be a list, not {self._name_of(node)}", "begin each item with '- '")
        values = []
        for index, child in enumerate(node.items):
            where = f"{path}[{index}]"
            self.lines[where] = (child.line, child.column)
            if is_null(child):
                self._fail(where, "is empty", "take the item away, or fill it in")
                continue
            value = self._read(child, shape.item, where)
            if value is not MISSING:
                values.append(value)
        return tuple(values)

    def _map(self, node: Node, shape: Shape, path: str) -> object:
        assert shape.item is not None
        if not isinstance(node, MapNode):
            return self._fail(path, f"must be a mapping of names to values, not {self._name_of(node)}")
        values = {}
        for name, (key, child) in node.entries.items():
            where = f"{path}[{printable(name)}]"
            self.lines[where] = (key.line, key.column)
            value = self._read(child, shape.item, where)
            if self._text(name, where) is MISSING:
                continue
            if value is not MISSING:
                values[name] = value
            elif is_null(child) and shape.item.kind is ShapeKind.STRING:
                values[name] = ""  # as in Go, where a null value is the zero value
        return values

    def _any(self, node: Node, path: str) -> object:
        """Read a value without a declared type by its syntax."""
        match node:
            case MapNode():
                named = ((name, child, f"{path}.{printable(name)}") for name, (_, child) in node.entries.items())
                pairs = ((self._text(name, where), self._read(child, _ANY, where)) for name, child, where in named)
                return {name: None if value is MISSING else value for name, value in pairs}
            case ListNode():
                items = (self._read(child, _ANY, f"{path}[{index}]") for index, child in enumerate(node.items))
                return [None if value is MISSING else value for value in items]
        value = plain_value(node)
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: str) -> str | _MissingValue:
        """Return the text if it is valid for programs; invalid texts are reported and not put into an object."""
        if "\x00" in text:
            return self._fail(path, "contains a NUL character", "take it away; programs cannot take it as text")
        if not encodable(text):
            return self._fail(path, "contains half of a surrogate pair", "write the character itself")
        return text

    def _string(self, node: ScalarNode, path: str) -> object:
        value = plain_value(node)
        if isinstance(value, str):
            return self._text(value, path)
        example = "" if self._private else f': "{shown(node.text)[1:-1]}"'
        return self._fail(path, f"must be text, not {self._name_of(node)}", f"quote it{example}")

    def _integer(self, node: ScalarNode, path: str) -> object:
        value = plain_value(node)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1e3 and 8.0 are whole numbers too
        if isinstance(value, int) and not isinstance(value, bool):
            if value in _INT64:
                return value
            return self._fail(path, f"{shown(node.text)} is too large", "the API keeps 64 bits")
        remedy = "take the quotes away" if _INTEGER.fullmatch(node.text) else ""
        return self._fail(path, f"must be a whole number, not {self._name_of(node)}", remedy)

    def _number(self, node: ScalarNode, path: str) -> object:
        value = plain_value(node)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        return self._fail(path, f"must be a number, not {self._name_of(node)}")

    def _boolean(self, node: ScalarNode, path: str) -> object:
        value = plain_value(node)
        if isinstance(value, bool):
            return value
        remedy = "take the quotes away" if node.text in _TRUE | _FALSE else ""
        return self._fail(path, f"must be true or false, not {self._name_of(node)}", remedy)

    def _bytes(self, node: ScalarNode, path: str) -> object:
        try:
            return base64.b64decode(node.text.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            field = path.partition("[")[0]
            remedy = "encode it, or use stringData for plain text" if field == "data" else "encode it"
            return self._fail(path, "is not base64", remedy)

    def _time(self, node: ScalarNode, path: str) -> object:
        try:
            moment = convert(node.text, datetime)
        except ValueError:  # of msgspec, or of the encoder for half a surrogate pair
            return self._fail(path, f"{shown(node.text)} is not a time", "write it like 2006-01-02T15:04:05Z")
        if moment.tzinfo is None:
            return self._fail(path, f"{shown(node.text)} has no time zone", "end it with Z")
        return moment

    def _micro_time(self, node: ScalarNode, path: str) -> object:
        moment = self._time(node, path)
        return MicroTime.combine(moment.date(), moment.timetz()) if isinstance(moment, datetime) else moment

    def _quantity(self, node: ScalarNode, path: str) -> object:
        try:
            return quantity.canonical(node.text)
        except Invalid as error:
            message, _, remedy = str(error).partition(": ")
            return self._fail(path, message, remedy)

    def _int_or_string(self, node: ScalarNode, path: str) -> object:
        value = plain_value(node)
        if isinstance(value, str):
            return self._text(value, path)
        return self._integer(node, path)


_ANY: Final = Shape(ShapeKind.ANY)
_NAMES: Final[Mapping[ShapeKind, str]] = {
    ShapeKind.STRING: "text",
    ShapeKind.INTEGER: "a whole number",
    ShapeKind.NUMBER: "a number",
    ShapeKind.BOOLEAN: "true or false",
    ShapeKind.BYTES: "base64 text",
    ShapeKind.TIME: "a time",
    ShapeKind.MICRO_TIME: "a time",
    ShapeKind.QUANTITY: "a quantity",
    ShapeKind.INT_OR_STRING: "a number or a name",
}
_KNOWN_TAGS: Final = frozenset({"!", *(_TAG + name for name in ("str", "int", "float", "bool", "null"))})


def plain_value(node: ScalarNode) -> str | int | float | bool | None:
    """Return the value of a scalar by its syntax, unless it is quoted."""
    text = node.text
    if node.tag in ("!", _TAG + "str") or not (node.plain or node.tag):
        return text
    if is_null(node):
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return _to_int(text)
        if _FLOAT.fullmatch(text):
            return float(text.replace("_", ""))
    elif text.isdecimal():
        return math.inf  # absurdly large; the callers report it as too large or not whole
    return text


def _to_int(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").replace("_", "")
    for prefix, base in (("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and len(digits) > len(prefix):
            return sign * int(digits[len(prefix) :], base)
    return sign * int(digits or "0")


def _indent_advice(node: Node) -> str:
    return "take the '-' away" if isinstance(node, ListNode) else "indent the fields below it"


def _suggest(name: str, fields: Mapping[str, Field]) -> str:
    """Return the known field that an unknown one probably means."""
    if close := closest(name, fields):
        return f"did you mean {close}?"
    if len(fields) <= 12:
        return "the fields here are " + ", ".join(sorted(fields))
    return "is it in the right place?"
