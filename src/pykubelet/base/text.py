"""Escaping of text from untrusted sources, so that it can be shown, encoded and hashed.

File names are bytes, which Python represents as text with lone surrogates for bytes that are not UTF-8; JSON can
contain lone surrogates too. Such text cannot be encoded: it must not get into messages, responses, labels or hashes.
"""

import re

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BYTES = range(0xDC80, 0xDD00)
"""The surrogates that ``surrogateescape`` uses for the bytes from 0x80 on."""


def printable(text: str) -> str:
    """The text as one line that can be encoded: undecodable bytes and control characters as backslash escapes."""
    return _UNFIT.sub(_escaped, text)


def encodable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return match.group().encode("unicode_escape").decode()
