"""Reading of YAML with bounds, for `documents.py`, which imports this module when the first YAML is read."""

from collections.abc import Iterator
from typing import Final

import yaml

from pykubelet.base.errors import Invalid

if not yaml.__with_libyaml__:  # PyYAML goes on without it
    raise ImportError("PyYAML cannot load libyaml")

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000
"""Limit of values in a YAML text; those of an alias count each time the alias is used."""


def load(data: bytes) -> object:
    """The values of the first document of a YAML or JSON text; None for an empty one. Raises Invalid."""
    try:
        _check_size(data)
        return yaml.load(data, Loader=yaml.CSafeLoader)
    except Invalid:
        raise
    except Exception as error:  # PyYAML's constructors raise whatever their scalars make Python raise
        raise Invalid(f"not YAML or JSON: {' '.join(str(error).split())}") from error


def places(data: bytes) -> dict[str, tuple[int, int]]:
    """Line and column, from 1, of each field by its path (``a.b[0].c``), of a text that `load` has read."""
    root = yaml.compose(data, Loader=yaml.CSafeLoader)
    return dict(_places(root, "")) if root is not None else {}


def _places(node: yaml.Node, path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    children: list[tuple[str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        children = [(f"{path}.{key.value}" if path else str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(f"{path}[{index}]", value, value) for index, value in enumerate(node.value)]
    for where, place, value in children:
        if place.start_mark is not None:
            yield where, (place.start_mark.line + 1, place.start_mark.column + 1)
        yield from _places(value, where)


def _check_size(data: bytes) -> None:
    """Reject documents that the composer cannot handle: it recurses on the C stack, which has no guard."""
    sizes = [0]
    opened: list[str | None] = []
    anchors: dict[str, int] = {}
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        match event:
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                sizes.append(0)
                opened.append(event.anchor)
                if len(opened) > MAX_DEPTH:
                    raise Invalid(f"nested more than {MAX_DEPTH} levels deep, which nothing needs")
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                inner, anchor = sizes.pop() + 1, opened.pop()
                sizes[-1] += inner
                if anchor:
                    anchors[anchor] = inner
            case yaml.AliasEvent():
                if event.anchor in opened:
                    raise Invalid(f"the alias *{event.anchor} contains itself; write the value out")
                sizes[-1] += anchors.get(event.anchor or "", 1)
            case yaml.ScalarEvent():
                sizes[-1] += 1
                if event.anchor:
                    anchors[event.anchor] = 1
        if sizes[-1] > MAX_VALUES:
            raise Invalid(f"has more than {MAX_VALUES} values once its aliases are written out")
