"""Messages whose fields contain any value that protobuf permits, mixed with meaningful values."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_STRINGS = (
    *(
        "",
        "a",
        "0",
        "-1",
        "app:1",
        "runc",
        "SIGTERM",
        "SIGNOSUCH",
        "10.0.0.1",
        "::1/64",
        "/",
        "//",
        ".",
        "..",
        "../../x",
    ),
    *(
        "\0",
        "a\0b",
        "a\nb",
        "\x1b[2J\r\t",
        "%s%n{}",
        "ä€😀",
        "\u202e\ufeff",
        "/proc/self/fd/1",
        "/dev/null",
        "~",
        "a" * 5000,
    ),
    *("net.ipv4.ip_forward", "kernel.shmmax", "1000", "1e9", "nan", "user:group", "0:0", "a" * 300 + "/b", "x/" * 300),
)
_INTEGERS = (0, 1, 2, -1, 7, 65535, 65536, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 - 1, 2**64 - 1)
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_PATHS = frozenset(("host_path", "log_directory"))
"""Fields with paths of the node: missing ones are created, so values are limited to one directory."""
_DEEPEST = 6
_MANY = 2000


class Nonsense:
    """Fills messages with random values."""

    def __init__(self, chance: random.Random, directory: Path, ids: Sequence[str]) -> None:
        self._chance = chance
        self._directory = directory
        self._ids = ids

    def fill(self, message: Message, likely: float, depth: int = 0) -> None:
        """Set each field with that probability; fields that are already set may be changed."""
        for field in message.DESCRIPTOR.fields:
            if self._chance.random() < likely and depth < _DEEPEST:
                self._set(message, field, likely, depth)

    def _set(self, message: Message, field: Any, likely: float, depth: int) -> None:
        held: Any = getattr(message, field.name)
        if not field.is_repeated:
            if field.message_type:
                held.SetInParent()
                self.fill(held, likely, depth + 1)
            else:
                setattr(message, field.name, self._value(field))
        elif field.message_type and field.message_type.GetOptions().map_entry:
            keys, values = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for number in range(self._count()):
                key = self._value(keys)
                key = f"{key}{number}" if isinstance(key, str) else key
                if values.message_type:
                    self.fill(held[key], likely, depth + 1)
                else:
                    held[key] = self._value(values)
        else:
            many = self._count()
            for _ in range(many):
                if field.message_type:
                    self.fill(held.add(), likely if many < _MANY else 0.1, depth + 1)
                else:
                    held.append(self._value(field))

    def _count(self) -> int:
        return self._chance.choice((0, 1, 1, 2, 3, 3, _MANY if self._chance.random() < 0.03 else 1))

    def _value(self, field: Any) -> Any:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._chance.random() < 0.5
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return self._chance.choice((b"", b"\xff\0\xfe", b"a" * 5000))
            case FieldDescriptor.CPPTYPE_STRING:
                return self._string(field)
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self._chance.choice((0.0, -1.0, 1e308, float("nan"), float("inf")))
            case kind:
                low, high = _RANGES[kind]
                return self._chance.choice([each for each in _INTEGERS if low <= each <= high])

    def _string(self, field: Any) -> str:
        if field.name in _PATHS:
            return self._chance.choice(
                (
                    "",
                    "a/b",
                    "/dev/null",
                    *(f"{self._directory}{end}" for end in ("", "/x", "/x/../y", "/a\nb", "/\0", "/ä")),
                )
            )
        if field.name.endswith("_id") and self._ids and self._chance.random() < 0.8:
            identity = self._chance.choice(self._ids)
            return identity[: self._chance.choice((1, 5, 64, 64, 64, 64))]
        if self._chance.random() < 0.02:
            return "x" * 1_000_000
        return self._chance.choice(_STRINGS)
