"""The schema of the models for the strict reader: fields by JSON name, and their types. Pure."""

import types
import typing
from collections.abc import Mapping
from datetime import datetime
from enum import Enum, auto
from functools import cache
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from pykubelet.models.scalars import KubeStruct, MicroTime


class ShapeKind(Enum):
    """ShapeKind of a type, which determines how a value is read."""

    OBJECT = auto()
    LIST = auto()
    MAP = auto()
    STRING = auto()
    INTEGER = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    BYTES = auto()
    TIME = auto()
    MICRO_TIME = auto()
    QUANTITY = auto()
    INT_OR_STRING = auto()
    ANY = auto()


class Shape(Struct, frozen=True):
    """The expected type of a value; ``item`` for lists and maps, ``model`` for objects."""

    kind: ShapeKind
    item: "Shape | None" = None
    model: type[KubeStruct] | None = None


class Field(Struct, frozen=True):
    """A field of an object: its Python attribute, whether the model requires it, and its type."""

    attribute: str
    required: bool
    shape: Shape


_SCALARS: Final[Mapping[object, ShapeKind]] = {
    str: ShapeKind.STRING,
    int: ShapeKind.INTEGER,
    float: ShapeKind.NUMBER,
    bool: ShapeKind.BOOLEAN,
    bytes: ShapeKind.BYTES,
    datetime: ShapeKind.TIME,
    MicroTime: ShapeKind.MICRO_TIME,
    object: ShapeKind.ANY,
}


@cache
def fields_of(model: type[KubeStruct]) -> Mapping[str, Field]:
    """Return the fields of a model by their names in a manifest."""
    return {
        info.encode_name: Field(info.name, info.required, _shape(info.type)) for info in msgspec.structs.fields(model)
    }


def _shape(annotation: object) -> Shape:
    if isinstance(annotation, type) and issubclass(annotation, KubeStruct):
        return Shape(ShapeKind.OBJECT, model=annotation)
    if annotation in _SCALARS:
        return Shape(_SCALARS[annotation])
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0])
    if origin is tuple:
        return Shape(ShapeKind.LIST, item=_shape(arguments[0]))
    if origin is dict:
        return Shape(ShapeKind.MAP, item=_shape(arguments[1]))
    if origin in (types.UnionType, typing.Union):
        members = [each for each in arguments if each is not type(None)]
        if len(members) == 1:
            return _shape(members[0])
        if set(members) == {str, int, float}:
            return Shape(ShapeKind.QUANTITY)
        if set(members) == {str, int}:
            return Shape(ShapeKind.INT_OR_STRING)
    raise TypeError(f"the models use a type that manifests cannot be read into: {annotation!r}")
