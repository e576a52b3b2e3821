"""Errors of configuration files with the field's line and, for an unknown field, the one that was probably meant."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import field_places
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.suggestion import closest

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]+)`")
_TABLE: Final = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"(\s*)([\w.\"'-]+)\s*=")
_MAX_BYTES: Final = 1 << 20
_ANY_KEY: Final = "[...]"
"""The key of a mapping in the paths of msgspec."""

Places = Mapping[str, tuple[int, int]]


def field_error(error: msgspec.ValidationError, model: type[msgspec.Struct], file: Path) -> Invalid:
    """Return the error of a file whose content is not a `model`; its line is named if it is certain."""
    text, _, at = str(error).partition(" - at ")
    path = at.strip("`").removeprefix("$").removeprefix(".")
    unknown = _UNKNOWN.fullmatch(text)
    if unknown is not None:
        close = closest(unknown[1], _fields_at(model, path))
        path = f"{path}.{unknown[1]}" if path else unknown[1]
        text = "unknown field" + (f" (did you mean {close}?)" if close else "")
    place = _place(path, _places(file))
    where = f"{file}:{place[0]}:{place[1]}" if place is not None else str(file)
    return Invalid(f"{where}: {path}: {text[0].lower()}{text[1:]}" if path else f"{where}: {text}")


def _fields_at(model: type[msgspec.Struct], path: str) -> list[str]:
    """Return the fields of the object at a path, such as ``handlers[...]``."""
    kind: Any = model
    for part in path.replace(_ANY_KEY, "[]").split(".") if path else ():
        name, *subscripts = part.split("[")
        kind = get_type_hints(kind)[name]
        for _ in subscripts:
            kind = get_args(kind)[1 if get_origin(kind) is dict else 0]
    return [info.encode_name for info in msgspec.structs.fields(kind)]


def _places(file: Path) -> Places:
    try:
        data = read_regular(file, _MAX_BYTES)
    except OSError:
        return {}  # it has changed since it was read
    return _toml_places(data.decode(errors="replace")) if file.suffix == ".toml" else field_places(data)


def _toml_places(text: str) -> Places:
    """Return the lines of keys and tables; what only looks like one, in a text of several lines, is among them."""
    places: dict[str, tuple[int, int]] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.match(line):
            table = _plain(header[1])
            places.setdefault(table, (number, header.start(1) + 1))
        elif key := _KEY.match(line):
            name = _plain(key[2])
            places.setdefault(f"{table}.{name}" if table else name, (number, key.start(2) + 1))
    return places


def _plain(key: str) -> str:
    return key.replace('"', "").replace("'", "").replace(" ", "")


def _place(path: str, places: Places) -> tuple[int, int] | None:
    """Return the place of the only field that a path means, or of its nearest parent."""
    while path:
        pattern = re.escape(path).replace(re.escape(_ANY_KEY), r"\..+")
        found = [place for field, place in places.items() if re.fullmatch(pattern, field)]
        if found:
            return found[0] if len(found) == 1 else None
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None
