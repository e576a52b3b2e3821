"""JSON and plain values to typed objects, in any thread.

msgspec examines a type when it is used for the first time. If two threads do so at once, one of them reads what the
other has half made, and the process crashes. Here one thread at a time examines types, before anything is decoded to
them. Everything that decodes to a type goes through here, or makes its ``Decoder`` when its module is imported.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_lock: Final = threading.Lock()
_examined: Final[set[Any]] = set()


def examine(kind: Any) -> None:
    """Have msgspec examine a type, and those of its fields, unless it has been done."""
    if kind not in _examined:
        with _lock:
            msgspec.json.Decoder(kind)
        _examined.add(kind)


def decode_json(data: bytes | str, kind: type[_T]) -> _T:
    """The object in a JSON text. Raises msgspec.DecodeError, RecursionError, and ValueError for text not of UTF-8."""
    examine(kind)
    return msgspec.json.decode(data, type=kind)


def convert(value: object, kind: type[_T], dec_hook: Callable[[type, Any], Any] | None = None) -> _T:
    """The object of plain values; ``dec_hook`` as that of msgspec. Raises msgspec.ValidationError, RecursionError."""
    examine(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook)
