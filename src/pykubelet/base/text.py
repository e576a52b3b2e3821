"""Text from untrusted sources, made fit to be shown, written and hashed.

File names are bytes, which Python hands on as text with half surrogates for what is not UTF-8, and JSON can spell
half surrogates too. Such text cannot be encoded: it must not get into messages, answers, labels or hashes.
"""

import re

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BYTES = range(0xDC80, 0xDD00)
"""What ``surrogateescape`` makes of the bytes from 0x80 on."""


def printable(text: str) -> str:
    """The text in one line that can be encoded: other bytes and control characters as backslash escapes."""
    return _UNFIT.sub(_escaped, text)


def encodable(text: str) -> bool:
    """Whether the text can be written as UTF-8: it holds no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return match.group().encode("unicode_escape").decode()
