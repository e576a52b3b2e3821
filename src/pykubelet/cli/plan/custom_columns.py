"""Tables of ``-o custom-columns=HEADING:PATH,…``, and the order of ``--sort-by``. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pykubelet.base.errors import Invalid
from pykubelet.cli.plan.jsonpath import find, printed
from pykubelet.cli.plan.jsonpath_syntax import Path, parse_expression
from pykubelet.models.quantity import parse

_SEPARATOR: Final = re.compile(r",(?![^\[\]]*\])")


@dataclass(frozen=True, slots=True)
class CustomColumns:
    """Headings, and the path of each column."""

    headings: tuple[str, ...]
    paths: tuple[Path, ...]

    def row(self, item: Any) -> tuple[str, ...]:
        """Return an object's cells: several results are separated by commas; ``<none>`` stands for none."""
        return tuple(",".join(printed(each) for each in find(path, item)) or "<none>" for path in self.paths)


def parse_columns(text: str) -> CustomColumns:
    """Parse ``HEADING:PATH,…``. Invalid: a column without a path, or with a wrong one."""
    headings, paths = [], []
    for part in _SEPARATOR.split(text):
        heading, colon, path = part.partition(":")
        if not colon or not heading or not path:
            raise Invalid(f"custom-columns: {part!r}: write HEADING:PATH, for example NAME:.metadata.name")
        headings.append(heading.strip())
        paths.append(parse_expression(path))
    return CustomColumns(tuple(headings), tuple(paths))


def sorted_by(expression: str, items: Sequence[Any]) -> list[Any]:
    """Return the objects in the order of a path's value: quantities by size, else by text. Invalid: a wrong path."""
    try:
        path = parse_expression(expression)
    except Invalid as error:
        raise Invalid(f"--sort-by: {error}") from error

    def key(item: Any) -> tuple[int, Any]:
        found = find(path, item)
        value = found[0] if found else None
        if value is None:
            return 0, 0
        if isinstance(value, int | float):
            return 1, value
        try:
            return 1, parse(str(value)).nano / 1e9
        except Invalid:
            return 2, printed(value)

    return sorted(items, key=key)
