"""Patterns with the syntax of Go's ``path.Match``, as configuration files of containerd have them. Pure."""

import re
from functools import lru_cache
from typing import Final

from pykubelet.base.errors import Invalid

_CHARACTER: Final = r"(?:\\.|[^\\\]-])"
_RANGE: Final = re.compile(rf"({_CHARACTER})(?:-({_CHARACTER}))?", re.DOTALL)
_TOKEN: Final = re.compile(rf"[*?]|\[\^?(?:{_CHARACTER}(?:-{_CHARACTER})?)+\]|\\.|[^\\\[*?]", re.DOTALL)


@lru_cache(maxsize=256)
def path_pattern(pattern: str) -> re.Pattern[str]:
    """The expression whose full match is the pattern's: ``*`` and ``?`` do not match a slash. Invalid: malformed."""
    found: list[str] = []
    position = 0
    try:
        while position < len(pattern):
            token = _TOKEN.match(pattern, position)
            if token is None:
                raise ValueError("unclosed class or escape")
            found.append(_translated(token[0]))
            position = token.end()
        return re.compile("".join(found), re.DOTALL)
    except (ValueError, re.error) as error:
        raise Invalid(f"pattern {pattern!r} is malformed: {error}") from error


def _translated(token: str) -> str:
    if token in ("*", "?"):
        return "[^/]*" if token == "*" else "[^/]"
    if not token.startswith("["):
        return re.escape(token[-1])
    negated = token.startswith("[^")
    ranges = _RANGE.findall(token[2 if negated else 1 : -1])
    text = "".join(re.escape(first[-1]) + (f"-{re.escape(last[-1])}" if last else "") for first, last in ranges)
    return f"[{'^' if negated else ''}{text}]"
