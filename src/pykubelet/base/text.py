"""Escaping of text from untrusted sources, so that it can be shown, encoded and hashed, and of what may not be shown.

File names are bytes, which Python represents as text with lone surrogates for bytes that are not UTF-8; JSON can
contain lone surrogates too. Such text cannot be encoded: it must not get into messages, responses, labels or hashes.
"""

import re

_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029"
    # hidden: Default_Ignorable_Code_Point of Unicode 15, without U+FE0E and U+FE0F
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # annotations between lines, and the format controls of hieroglyphs
    "\ufff9-\ufffb\U00013430-\U0001343f]"
)
_BYTES = range(0xDC80, 0xDD00)
"""The surrogates that ``surrogateescape`` uses for the bytes from 0x80 on."""


def printable(text: str) -> str:
    """The text as one line that can be encoded and shows all it has, in its order.

    Written as backslash escapes are: undecodable bytes, control characters, line and paragraph separators, and what
    hides or reorders text, which is Unicode's property Default_Ignorable_Code_Point (UAX #44: the bidirectional
    controls of UAX #9, zero-width characters, fillers, variation selectors, tags) and the format characters for
    annotations and hieroglyphs. U+FE0E and U+FE0F stay, which choose between the two shapes of a symbol, and so do
    format characters that are visible, as the Arabic number signs are. The joiners U+200C and U+200D are escaped,
    although some scripts and composed emoji use them. The result is its own result.
    """
    return _UNFIT.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The text with each of its lines, which only a line feed ends, as :func:`printable` shows it; tabs stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def encodable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def cut(text: str, limit: int) -> str:
    """The text cut between characters to ``limit`` bytes of UTF-8 at most; lone surrogates are ``?``."""
    return text[:limit].encode(errors="replace")[:limit].decode(errors="ignore")


def has_in_order(text: str, first: re.Pattern[str], then: re.Pattern[str]) -> bool:
    """Whether a match of ``first`` is followed by one of ``then``, in linear time.

    An expression with ``.*`` between the two searches the rest of the text from each match of the first one: a program
    name of 1 MiB in the message of a runtime would take hours.
    """
    found = first.search(text)
    return found is not None and then.search(text, found.end()) is not None


def without_credentials(url: str) -> str:
    """The URL for display: without user and password, and with unprintable characters escaped."""
    from urllib.parse import urlsplit  # small programs use this module, and no URLs

    try:
        parts = urlsplit(url)
    except ValueError:
        return printable(url.rpartition("@")[2])
    return printable(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return match.group().encode("unicode_escape").decode()
