"""Kubernetes objects to bytes and back: JSON for the wire, plain values for YAML, times as the API has them.

Everything that decodes or encodes a model goes through here, because msgspec needs our hooks for
:class:`~pykubelet.models.scalars.MicroTime`. Decoders are cached per type.
"""

from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import convert, examine
from pykubelet.models.scalars import MicroTime

T = TypeVar("T")


def _encode_hook(value: object) -> object:
    if isinstance(value, MicroTime):
        return value.wire()
    raise NotImplementedError(f"cannot encode a {type(value).__name__}")


_encoder: Final = msgspec.json.Encoder(enc_hook=_encode_hook)
_stable_encoder: Final = msgspec.json.Encoder(enc_hook=_encode_hook, order="deterministic")
_decoders: Final[dict[type, msgspec.json.Decoder[Any]]] = {}


def decode(data: bytes | str, target: type[T]) -> T:
    """The object in a JSON text. Raises Invalid when it does not fit the type.

    Unknown fields are ignored. A null stands for an absent field, as in Go; that costs a second pass, which
    only texts pay that need it.
    """
    try:
        return decode_flat(data, target)
    except RecursionError as error:
        raise Invalid(f"not a valid {target.__name__}: {error}") from error


def decode_flat(data: bytes | str, target: type[T]) -> T:
    """The same, but raises RecursionError for a text that is too deep; that of ``decoding.shallow`` is not."""
    try:
        return _decoder(target).decode(data)
    except ValueError as error:
        first = error
    try:
        return convert(_drop_nulls(msgspec.json.decode(data)), target, dec_hook=_decode_hook)
    except ValueError as error:
        raise Invalid(f"not a valid {target.__name__}: {error}") from first


def encode(value: object) -> bytes:
    """The JSON text of an object, or of plain values that contain objects."""
    return _encoder.encode(value)


def encode_stable(value: object) -> bytes:
    """The JSON text with mappings sorted, the same for equal objects: for hashes."""
    return _stable_encoder.encode(value)


def to_builtins(value: object) -> object:
    """The object as dicts, lists, strings and numbers; times as RFC 3339 text, bytes as base64."""
    return msgspec.to_builtins(value, enc_hook=_encode_hook)


def from_builtins(value: object, target: type[T]) -> T:
    """The object from dicts and lists, as JSON and YAML readers give them. Raises Invalid on a misfit."""
    try:
        return convert(_drop_nulls(value), target, dec_hook=_decode_hook)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"not a valid {target.__name__}: {error}") from error


def _decoder(target: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _decoders.get(target)
    if decoder is None:
        examine(target)
        decoder = _decoders[target] = msgspec.json.Decoder(target, dec_hook=_decode_hook)
    return decoder


def _decode_hook(target: type, value: object) -> object:
    if target is MicroTime:
        moment = convert(value, datetime)
        if moment.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: end it with Z")
        try:
            utc = moment.astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"{value!r} is not between the years 1 and 9999 in UTC") from error
        return MicroTime.combine(utc.date(), utc.timetz())
    if target is object:  # the values of a RawObject, whose shape is not known
        return value
    raise NotImplementedError(f"cannot decode a {target.__name__}")


def _drop_nulls(value: object) -> object:
    match value:
        case dict():
            return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [_drop_nulls(each) for each in value]
    return value
