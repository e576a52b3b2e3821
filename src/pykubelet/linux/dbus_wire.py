"""Encoding and decoding of D-Bus messages, as far as talking to systemd needs it. Pure.

Source: the D-Bus specification, "Message Protocol". Little endian; integers of 32 and 64 bits, booleans, strings,
object paths, signatures, arrays, structs and variants.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from pykubelet.base.errors import Invalid


@dataclass(frozen=True, slots=True)
class Variant:
    """A D-Bus variant: a value with its type."""

    signature: str
    value: "Value"


Value: TypeAlias = "bool | int | str | list[Value] | tuple[Value, ...] | Variant"

_PREFIX = struct.Struct("<4B3I")
PREFIX_SIZE = _PREFIX.size
"""Length of the part of a message from which its length can be computed, in bytes."""
_MAX_MESSAGE = 1 << 27
_FIXED = {"y": "<B", "n": "<h", "q": "<H", "i": "<i", "u": "<I", "x": "<q", "t": "<Q"}
_ALIGNMENT = {"y": 1, "n": 2, "q": 2, "g": 1, "v": 1, "x": 8, "t": 8, "d": 8, "(": 8, "{": 8}


class Kind(IntEnum):
    """Types of D-Bus messages."""

    CALL = 1
    RETURN = 2
    ERROR = 3
    SIGNAL = 4


class _Field(IntEnum):
    PATH = 1
    INTERFACE = 2
    MEMBER = 3
    ERROR_NAME = 4
    REPLY_SERIAL = 5
    DESTINATION = 6
    SENDER = 7
    SIGNATURE = 8


_FIELD_TYPES = {_Field.PATH: "o", _Field.REPLY_SERIAL: "u", _Field.SIGNATURE: "g"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message; missing strings are empty. ``reply_to`` is the serial of the call that it answers."""

    kind: Kind
    serial: int
    path: str = ""
    interface: str = ""
    member: str = ""
    destination: str = ""
    error: str = ""
    reply_to: int = 0
    signature: str = ""
    body: tuple[Value, ...] = ()


def encode(message: Message) -> bytes:
    """Encode a message. Raises Invalid if a value does not fit its type."""
    body = bytearray()
    for signature, value in zip(split(message.signature), message.body, strict=True):
        _write(body, signature, value)
    fields: dict[_Field, Value] = {
        _Field.PATH: message.path,
        _Field.INTERFACE: message.interface,
        _Field.MEMBER: message.member,
        _Field.ERROR_NAME: message.error,
        _Field.REPLY_SERIAL: message.reply_to,
        _Field.DESTINATION: message.destination,
        _Field.SIGNATURE: message.signature,
    }
    rows: list[Value] = [
        (int(field), Variant(_FIELD_TYPES.get(field, "s"), value)) for field, value in fields.items() if value
    ]
    # The array of fields starts with its length, which the prefix already contains.
    head = bytearray(_PREFIX.pack(ord("l"), message.kind, 0, 1, len(body), message.serial, 0)[:-4])
    _write(head, "a(yv)", rows)
    _pad(head, 8)
    return bytes(head + body)


def length(prefix: bytes) -> int:
    """The length in bytes of the message that starts with these `PREFIX_SIZE` bytes. Raises Invalid for other data."""
    endian, _, _, version, body, _, fields = _PREFIX.unpack(prefix)
    total = _PREFIX.size + -(-fields // 8) * 8 + body
    if endian != ord("l") or version != 1 or total > _MAX_MESSAGE:
        raise Invalid("not a little-endian D-Bus message")
    return int(total)


def decode(data: bytes) -> Message:
    """Decode a whole message. Raises Invalid if it is malformed."""
    try:
        kind, serial = data[1], struct.unpack_from("<I", data, 8)[0]
        reader = _Reader(data, 12)
        fields: dict[int, Value] = {}
        for row in _as_list(reader.read("a(yv)")):
            if isinstance(row, tuple) and isinstance(row[0], int) and isinstance(row[1], Variant):
                fields[row[0]] = row[1].value
        reader.align(8)
        signature = _text(fields, _Field.SIGNATURE)
        body = tuple(reader.read(each) for each in split(signature))
        reply_to = fields.get(_Field.REPLY_SERIAL, 0)
        return Message(
            kind=Kind(kind),
            serial=serial,
            path=_text(fields, _Field.PATH),
            interface=_text(fields, _Field.INTERFACE),
            member=_text(fields, _Field.MEMBER),
            destination=_text(fields, _Field.DESTINATION),
            error=_text(fields, _Field.ERROR_NAME),
            reply_to=reply_to if isinstance(reply_to, int) else 0,
            signature=signature,
            body=body,
        )
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise Invalid(f"malformed D-Bus message: {error}") from error


def split(signature: str) -> Iterator[str]:
    """The complete types of a signature one by one: ``sa(sv)`` is ``s`` and ``a(sv)``."""
    start = 0
    while start < len(signature):
        end = _end(signature, start)
        yield signature[start:end]
        start = end


def _end(signature: str, start: int) -> int:
    position = start
    while position < len(signature) and signature[position] == "a":
        position += 1
    depth = 0
    while position < len(signature):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(signature[position], 0)
        position += 1
        if depth == 0:
            return position
    raise Invalid(f"{signature!r} is not a D-Bus signature")


def _text(fields: dict[int, Value], field: _Field) -> str:
    value = fields.get(field, "")
    return value if isinstance(value, str) else ""


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _pad(out: bytearray, alignment: int) -> None:
    out.extend(bytes(-len(out) % alignment))


def _write(out: bytearray, signature: str, value: Value) -> None:
    code = signature[0]
    _pad(out, _ALIGNMENT.get(code, 4))
    match code, value:
        case "b", bool():
            out.extend(struct.pack("<I", value))
        case (("s" | "o"), str()):
            data = value.encode()
            out.extend(struct.pack("<I", len(data)) + data + b"\0")
        case "g", str():
            out.extend(bytes([len(value)]) + value.encode() + b"\0")
        case "v", Variant():
            _write(out, "g", value.signature)
            _write(out, value.signature, value.value)
        case "a", list():
            _write_array(out, signature[1:], value)
        case "(", tuple():
            for each, item in zip(split(signature[1:-1]), value, strict=True):
                _write(out, each, item)
        case _, int() if code in _FIXED:
            try:
                out.extend(struct.pack(_FIXED[code], value))
            except struct.error as error:
                raise Invalid(f"{value} does not fit the D-Bus type {code}") from error
        case _:
            raise Invalid(f"{value!r} is not of the D-Bus type {signature}")


def _write_array(out: bytearray, element: str, values: list[Value]) -> None:
    at = len(out)
    out.extend(bytes(4))
    _pad(out, _ALIGNMENT.get(element[0], 4))
    start = len(out)
    for value in values:
        _write(out, element, value)
    struct.pack_into("<I", out, at, len(out) - start)


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def align(self, alignment: int) -> None:
        self._position += -self._position % alignment

    def read(self, signature: str) -> Value:
        code = signature[0]
        self.align(_ALIGNMENT.get(code, 4))
        match code:
            case "b":
                return bool(self._number("<I"))
            case "s" | "o":
                return self._string(self._number("<I"))
            case "g":
                return self._string(self._number("<B"))
            case "v":
                inner = self._string(self._number("<B"))
                return Variant(inner, self.read(inner))
            case "a":
                return self._array(signature[1:])
            case "(" | "{":
                return tuple(self.read(each) for each in split(signature[1:-1]))
            case _ if code in _FIXED:
                return self._number(_FIXED[code])
            case _:
                raise ValueError(f"type {code} is not supported")

    def _array(self, element: str) -> Value:
        size = self._number("<I")
        self.align(_ALIGNMENT.get(element[0], 4))
        end = self._position + size
        if end > len(self._data):
            raise ValueError("an array goes beyond the end")
        values: list[Value] = []
        while self._position < end:
            values.append(self.read(element))
        return values

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._position)
        self._position += struct.calcsize(form)
        return int(value)

    def _string(self, size: int) -> str:
        end = self._position + size
        if end >= len(self._data):
            raise ValueError("a text goes beyond the end")
        text = self._data[self._position : end].decode()
        self._position = end + 1
        return text
