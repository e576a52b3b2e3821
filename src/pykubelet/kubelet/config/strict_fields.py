"""Conversion of a configuration's plain values to its type; an error names all unknown fields and their places."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert
from pykubelet.base.suggestion import closest

S = TypeVar("S", bound=msgspec.Struct)


class Origin(Struct, frozen=True):
    """Origin of the fields of a configuration."""

    name: str
    """All files, for fields without a place."""
    places: Mapping[str, str]
    """``FILE:LINE:COLUMN`` by field path."""

    def error(self, wrong: Iterable[str]) -> Invalid:
        """Return the error for messages that begin with a field path, each with the place of the field."""
        return Invalid("; ".join(f"{self._place(each.partition(': ')[0])}: {each}" for each in wrong))

    def _place(self, field: str) -> str:
        while field:
            if field in self.places:
                return self.places[field]
            cut = max(field.rfind("."), field.rfind("["))
            field = field[:cut] if cut > 0 else ""
        return self.name


def convert_strictly(document: dict[str, Any], kind: type[S], origin: Origin) -> S:
    """Convert plain values. Raises Invalid, which names all unknown fields, or the first of a wrong type."""
    unknown = list(_unknown(document, kind, ""))
    if unknown:
        raise origin.error(unknown)
    try:
        return convert(document, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.") or "document"
        raise origin.error([f"{field}: {text[0].lower()}{text[1:]}"]) from error


def _unknown(value: object, kind: Any, path: str) -> Iterator[str]:
    """Yield a message for each unknown key, which begins with its path."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        hints = get_type_hints(kind)
        fields = {f.encode_name: hints[f.name] for f in msgspec.structs.fields(kind)}
        for key, item in value.items():
            if key not in fields:
                close = closest(str(key), fields)
                yield f"{path}{key}: unknown field" + (f" (did you mean {close}?)" if close else "")
            else:
                yield from _unknown(item, fields[key], f"{path}{key}.")
    elif get_origin(kind) is tuple and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, get_args(kind)[0], f"{path.removesuffix('.')}[{index}].")
    elif type(None) in get_args(kind):
        for inner in get_args(kind):
            yield from _unknown(value, inner, path)
