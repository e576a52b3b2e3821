"""docs/security.md names a test for each bound; each of them exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_named_by_the_page_exists() -> None:
    named = _TEST.findall(PAGE.read_text())
    assert len(named) > 20
    missing = []
    for file, name in named:
        path = ROOT / file
        tree = ast.walk(ast.parse(path.read_text())) if path.exists() else ()
        names = {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        if not path.exists() or (name and name not in names):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_row_of_the_bounds_names_a_test() -> None:
    bounds = PAGE.read_text().partition("\n## Bounds\n")[2]
    rows = [line for line in bounds.splitlines() if line.startswith("| ") and not line.startswith("| what ")]
    assert len(rows) > 20
    assert [row for row in rows if not _TEST.search(row)] == []
