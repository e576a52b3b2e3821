"""JSON and plain values to typed objects, in any thread.

msgspec examines a type when it is used for the first time. If two threads do so at once, one of them reads what the
other has half made, and the process crashes. Here one thread at a time examines types, before anything is decoded to
them. Everything that decodes to a type goes through here, or makes its ``Decoder`` when its module is imported.
"""

import re
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_KEPT_LEVELS: Final = 100
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}]++)', re.DOTALL)
"""Strings, whose end may be missing, and brackets. A possessive group with alternatives would match wrongly before
Python 3.11.5 (gh-106052)."""
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


def shallow(data: bytes) -> bytes:
    """The JSON text with ``null`` for each value below so many levels that no type of an object has as many.

    For texts that are too deep to be decoded: they raise RecursionError, whether or not the deep value is used. Takes
    up to a second for each MiB.
    """
    kept: list[bytes] = []
    begin = depth = 0
    for match in _TOKENS.finditer(data):
        if match.lastindex == 1:
            depth += 1
            if depth == _KEPT_LEVELS + 1:
                kept += data[begin : match.start(1)], b"null"
                begin = len(data)
        elif match.lastindex == 2:
            start, end = match.span(2)
            before, depth = depth, depth - (end - start)
            if before > _KEPT_LEVELS >= depth:
                begin = end - (_KEPT_LEVELS - depth)
    return b"".join((*kept, data[begin:]))
