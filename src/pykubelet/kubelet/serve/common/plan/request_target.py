"""Checks that a request target is spelled in its normal form; others are rejected. Pure.

Routes are matched on the decoded path. A target that spells a path differently (``/%65xec`` for ``/exec``, ``//pods``,
``/pods/../exec``, an encoded slash) looks like another path to proxies, audit logs and rules in front of the server, so
no server here answers it (normal form: RFC 3986 section 6).
"""

import re
from typing import Final

from pykubelet.base.errors import Invalid

_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*")
"""``segment`` of RFC 3986."""
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SLASHES: Final = frozenset(b"/\\")
_DELETE: Final = 0x7F
_SHOWN: Final = 200


def check_target(target: str) -> None:
    """Check a request target (path and query as sent by the client). Invalid: what is wrong, and how to send it."""
    path, _, query = target.partition("?")
    if not query.isascii() or not query.isprintable():
        raise Invalid("invalid request query: it has a character that must be percent-encoded")
    fault = _fault(path)
    if fault is not None:
        raise Invalid(
            f"invalid request path {_shown(path)}: {fault}; send the path in its normal form, as in /pods, "
            "with percent-encoding only for characters that need it"
        )


def _fault(path: str) -> str | None:
    if not path.startswith("/"):
        return "it does not begin with a slash"
    *directories, last = path[1:].split("/")
    if "" in directories:
        return "it has an empty segment (//)"
    segments = (*directories, last)
    if "." in segments or ".." in segments:
        return "it has a dot segment"
    return next(filter(None, map(_escape_fault, _ESCAPE.finditer(path))), None) or _character_fault(segments)


def _escape_fault(escape: re.Match[str]) -> str | None:
    if escape[1] is None:
        return "it has a % that is not followed by two hexadecimal digits"
    byte = int(escape[1], 16)
    if byte in _UNRESERVED:
        return f"it has {escape[0]}, the encoding of {chr(byte)!r}, which needs no encoding"
    if byte in _SLASHES:
        return f"it has {escape[0]}, an encoded slash"
    if byte < ord(" ") or byte == _DELETE:
        return f"it has {escape[0]}, an encoded control character"
    return None


def _character_fault(segments: tuple[str, ...]) -> str | None:
    if all(map(_SEGMENT.fullmatch, segments)):
        return None
    return "it has a character that must be percent-encoded"


def _shown(path: str) -> str:
    shown = ascii(path[:_SHOWN])
    return shown if len(path) <= _SHOWN else f"{shown}…"
