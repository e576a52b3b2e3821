"""Globs in the labels of host names, as Go's ``path.Match`` has them, in bounded time. Pure.

``fnmatch`` compiles each pattern: one of a pull secret's 1 MiB took half a minute, in which the agent stood still.
"""

import re
from typing import Final

_LONGEST: Final = 63
"""Characters of a label (RFC 1035, section 2.3.4); longer ones match only the same text."""
_MOST_PATTERN: Final = 256
_TOKEN: Final = re.compile(r"(\*)|(\?)|\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|([^\\\[*?])", re.DOTALL)
_RANGE: Final = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


def label_matches(pattern: str, label: str) -> bool:
    """Whether a pattern matches a whole label; a malformed one matches nothing."""
    if pattern == label:
        return True
    if len(pattern) > _MOST_PATTERN or len(label) > _LONGEST:
        return False
    tokens = _tokens(pattern)
    if tokens is None or sum(token is not None for token in tokens) > len(label):
        return False
    at = position = 0
    star, after = -1, 0
    while position < len(label):
        token = tokens[at] if at < len(tokens) else ""
        if token is None:
            star, after = at, position
            at += 1
        elif token and _matches(token, label[position]):
            at, position = at + 1, position + 1
        elif star >= 0:  # the last star takes one character more
            after += 1
            at, position = star + 1, after
        else:
            return False
    return all(token is None for token in tokens[at:])


def _tokens(pattern: str) -> list[str | None] | None:
    """The parts of a pattern: None for a star, ``?``, ``=`` and a character, or a class as written; None: malformed."""
    found: list[str | None] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            return None
        position = match.end()
        star, one, negated, ranges, escaped, plain = match.groups()
        if star:
            found.append(None)
        elif one:
            found.append("?")
        elif ranges:
            found.append(f"{negated or '+'}{ranges}")
        else:
            found.append(f"={escaped or plain}")
    return found


def _matches(token: str, character: str) -> bool:
    if token == "?":
        return True
    if token[0] == "=":
        return token[1:] == character
    inside = any(first <= character <= (last or first) for first, last in _RANGE.findall(token[1:]))
    return inside != (token[0] == "^")
