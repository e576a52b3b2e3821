"""Regular expressions that every supported Python matches alike."""

import ast
import re
import re._constants as constants  # type: ignore[import-not-found]  # typeshed has no stubs of it
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.syntax import SOURCE, module_of

_GROUPS = (constants.POSSESSIVE_REPEAT, constants.ATOMIC_GROUP)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """All parts of a parsed expression: the operation of each and its arguments."""
    if isinstance(value, parser.SubPattern):
        for operation, arguments in value.data:
            yield operation, arguments
            yield from _parts(arguments)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)


def _differs(pattern: str | bytes) -> bool:
    """Whether the expression has a possessive or atomic group with alternatives."""
    groups = [arguments for operation, arguments in _parts(parser.parse(pattern)) if operation in _GROUPS]
    return any(operation is constants.BRANCH for group in groups for operation, _ in _parts(group))


@pytest.mark.parametrize(
    ("pattern", "differs"),
    [(r"(?:ab|c)*+d", True), (r"(?>ab|c)d", True), (r"(?:ab)*+|c", False), (rb"[ab]++(?:c|d)*", False)],
)
def test_possessive_groups_with_alternatives_are_recognized(pattern: str | bytes, differs: bool) -> None:
    assert _differs(pattern) is differs


def test_no_possessive_group_has_alternatives() -> None:
    """Before Python 3.11.5 they match wrongly (gh-106052), and Debian 12 has 3.11.2."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
                continue
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if any(mark in text for mark in ("*+", "++", "?+", "}+", "(?>")) and "\n" not in text:
                try:
                    found += [f"{module_of(path)}:{node.lineno}"] if _differs(node.value) else []
                except re.error:
                    continue  # no regular expression
    assert found == []
