"""Evaluates kubectl's JSONPath templates on plain objects (dicts, lists, strings, numbers). Pure.

As with ``kubectl get``, missing fields give nothing, and an index outside of an array that has items is an error.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli.plan.jsonpath_syntax import (
    Constant,
    Field,
    Filter,
    Node,
    Operand,
    Path,
    Range,
    RecursiveDescent,
    Slice,
    Step,
    Text,
    Union,
    Wildcard,
    parse_template,
)

_DOT: Final = re.compile(r"(?<!\\)\.")
_MISSING: Final = object()


class Template:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        """Parse the text; one that is only a path, without braces, is taken for an action. Raises Invalid."""
        self._nodes = parse_template(f"{{{text}}}" if text.startswith(".") and "{" not in text else text)

    def render(self, document: Any) -> str:
        """Return the text for a document. NotFound: an index is out of bounds. Invalid: values cannot be compared."""
        return "".join(_render(self._nodes, document, document))


def find(path: Path, value: Any) -> list[Any]:
    """Return the results of a path, in the order of the document. Errors as of :meth:`Template.render`."""
    return _results(path, value, value)


def printed(value: Any) -> str:
    """Return a value as kubectl prints it: text as it is, objects and arrays as JSON, nothing for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _render(nodes: Iterable[Node], value: Any, root: Any) -> Iterator[str]:
    for node in nodes:
        match node:
            case Text():
                yield node.text
            case Path():
                yield " ".join(printed(each) for each in _results(node, value, root))
            case Range():
                for each in _results(node.path, value, root):
                    yield from _render(node.body, each, root)


def _results(path: Path, value: Any, root: Any) -> list[Any]:
    found = [root if path.from_root else value]
    for step in path.steps:
        found = [result for each in _inputs(step, found) for result in _step(each[0], each[1], root)]
    return found


def _inputs(step: Step, values: Sequence[Any]) -> Iterator[tuple[Step, Any]]:
    """Yield steps and their inputs; a union's first step is applied to all values before its second."""
    for each in step.steps if isinstance(step, Union) else (step,):
        for value in values:
            yield each, value


def _step(step: Step, value: Any, root: Any) -> Iterator[Any]:
    match step:
        case Field():
            found = _field(step, value)
            if found is not _MISSING:
                yield found
        case Wildcard():
            yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        case RecursiveDescent():
            yield from _descendants(value)
        case Slice():
            yield from _slice(step, value)
        case Filter():
            yield from (each for each in _items(value) if _holds(step, each, root))
        case Union():
            for each in step.steps:
                yield from _step(each, value, root)


def _field(step: Field, value: Any) -> Any:
    if not isinstance(value, dict):
        return _MISSING
    plain = step.name.replace("\\.", ".") if step.split else step.name
    if plain in value or not step.split:
        return value.get(plain, _MISSING)
    for part in _DOT.split(step.name):
        value = value.get(part.replace("\\.", "."), _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _slice(step: Slice, value: Any) -> Iterator[Any]:
    items = _items(value)
    if not step.single:
        yield from items[step.start : step.stop : step.step]
        return
    index = step.start or 0
    if not items:
        return
    if not -len(items) <= index < len(items):
        raise NotFound(f"jsonpath: array index out of bounds: index {index}, length {len(items)}")
    yield items[index]


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid(f"jsonpath: {printed(value)[:80]} is not an array")
    return value


def _descendants(value: Any) -> Iterator[Any]:
    yield value
    below: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in below:
        yield from _descendants(each)


def _holds(step: Filter, value: Any, root: Any) -> bool:
    left = _operand(step.left, value, root)
    if step.right is None:
        return bool(left)
    right = _operand(step.right, value, root)
    if len(left) > 1 or len(right) > 1:
        raise Invalid("jsonpath: a filter compares single values; one side has several")
    return bool(left) and bool(right) and _compared(left[0], step.operator, right[0])


def _operand(operand: Operand, value: Any, root: Any) -> list[Any]:
    return [operand.value] if isinstance(operand, Constant) else _results(operand, value, root)


def _compared(left: Any, operator: str, right: Any) -> bool:
    if operator in ("==", "!="):
        # In Python, 1 == True.
        equal = left == right and isinstance(left, bool) == isinstance(right, bool)
        return equal == (operator == "==")
    if not (_is_number(left) and _is_number(right)) and not (isinstance(left, str) and isinstance(right, str)):
        raise Invalid(f"jsonpath: {printed(left)} {operator} {printed(right)}: values of different types")
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
