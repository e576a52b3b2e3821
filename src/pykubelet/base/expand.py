"""`$(VAR)` expansion in container commands, arguments and environment values.

`$(NAME)` becomes the variable's value, `$$` becomes `$` (so `$$(NAME)` is the literal `$(NAME)`), and a
reference to an unknown variable stays as it is. Rule: Kubernetes API, `Container.command`. Values are not
expanded again.
"""

import re
from collections.abc import Iterable, Mapping

_TOKEN = re.compile(r"\$\$|\$\(([^)]*)\)", re.DOTALL)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand every reference whose variable is known; leave the rest of the text alone."""
    if "$" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _TOKEN.sub(replace, text)


def expand_all(texts: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Apply `expand` to each text of a command or argument list."""
    return tuple(expand(text, variables) for text in texts)


def references(text: str) -> tuple[str, ...]:
    """The names in `$(NAME)` references, in order; escaped references do not count."""
    return tuple(match[1] for match in _TOKEN.finditer(text) if match[1] is not None)
