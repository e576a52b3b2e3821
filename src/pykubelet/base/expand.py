"""`$(VAR)` expansion in container commands, arguments and environment values.

`$(NAME)` becomes the variable's value, `$$` becomes `$` (so `$$(NAME)` is the literal `$(NAME)`), and a
reference to an unknown variable stays as it is. Rule: Kubernetes API, `Container.command`. Values are not
expanded again, but a variable's value is expanded with those before it: thirty that each name the last one twice would
be 1 GiB long.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.units import MIB

MOST_EXPANDED: Final = 6 * MIB
"""Characters of an expanded text, or list of texts: no process can have more arguments and variables (execve(2))."""
_SHOWN: Final = 80
_TOKEN = re.compile(r"\$\$|\$\(([^)]*)\)", re.DOTALL)


def expand(text: str, variables: Mapping[str, str], most: int = MOST_EXPANDED) -> str:
    """Expand every reference whose variable is known; leave the rest of the text alone.

    Invalid: the result has more than ``most`` characters; no more are made of it.
    """
    if "$" not in text:
        return text
    added = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal added
        name = match[1]
        value = "$" if name is None else variables.get(name, match[0])
        added += len(value) - len(match[0])
        if added + len(text) > most:
            raise Invalid(f"the variables in {text[:_SHOWN]!r} make it longer than {most} characters")
        return value

    end = _end_of_last(text)
    return _TOKEN.sub(replace, text[:end]) + text[end:].replace("$$", "$")


def expand_all(texts: Iterable[str], variables: Mapping[str, str], most: int = MOST_EXPANDED) -> tuple[str, ...]:
    """Apply `expand` to each text of a command or argument list. Invalid: together they are longer than ``most``."""
    found: list[str] = []
    for text in texts:
        found.append(expand(text, variables, most))
        most -= len(found[-1])
    return tuple(found)


def references(text: str) -> tuple[str, ...]:
    """The names in `$(NAME)` references, in order; escaped references do not count."""
    return tuple(match[1] for match in _TOKEN.finditer(text, 0, _end_of_last(text)) if match[1] is not None)


def _end_of_last(text: str) -> int:
    """The end of the last reference that there can be.

    Behind it the end of each ``$(`` would be looked for in vain, to the end of the text: in time that is quadratic.
    """
    return text.rfind(")") + 1
