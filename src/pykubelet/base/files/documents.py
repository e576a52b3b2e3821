"""Safe decoding of untrusted YAML, JSON and TOML: configurations, registry credentials, output of plugins.

libyaml's composer and Python's JSON reader trust their input: a deeply nested document overflows the stack and ends
the process, one with aliases of aliases takes all memory, and half a surrogate pair becomes text that cannot be
encoded. Python's TOML reader takes hours for a key of many parts. The functions here reject all of these with Invalid.
"""

import tomllib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from pykubelet.base.errors import Invalid

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000
"""Limit of values in a YAML text; those of an alias count each time the alias is used."""
_MOST_DOTS: Final = 256
"""Limit of dots in one line of TOML: the reader's time grows with the square of the parts of a key."""


def read_json(data: bytes | str) -> object:
    """The values of a JSON text. Raises Invalid for other text, half a surrogate pair, and values nested too deeply."""
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise Invalid("not JSON that can be read: nested too deeply") from error
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from error


def read_yaml(data: bytes) -> object:
    """The values of the first document of a YAML or JSON text; None for an empty one. Raises Invalid."""
    try:
        _check_size(data)
        return yaml.load(data, Loader=yaml.CSafeLoader)
    except Invalid:
        raise
    except Exception as error:  # PyYAML's constructors raise whatever their scalars make Python raise
        raise Invalid(f"not YAML or JSON: {' '.join(str(error).split())}") from error


def read_toml(data: bytes) -> dict[str, Any]:
    """The table of a TOML text. Raises Invalid."""
    try:
        text = data.decode()
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > _MOST_DOTS:
                raise Invalid(f"not TOML that can be read: line {number} has more than {_MOST_DOTS} dots")
        return tomllib.loads(text)
    except RecursionError as error:
        raise Invalid("not TOML that can be read: nested too deeply") from error
    except ValueError as error:  # also numbers that are too long
        raise Invalid(f"not TOML: {' '.join(str(error).split())}") from error


def has_nul(value: object) -> bool:
    """Whether a text among decoded values, or a key, contains NUL, which no path, program or file can have."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(has_nul(key) or has_nul(each) for key, each in value.items())
        case list():
            return any(map(has_nul, value))
    return False


def field_places(data: bytes) -> dict[str, tuple[int, int]]:
    """Line and column, from 1, of each field by its path (``a.b[0].c``), of a text that `read_yaml` has read."""
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
