"""docs/from-the-go-kubelet.md names files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "from-the-go-kubelet.md"
_REFERENCE = re.compile(r"`([\w/]+\.py)`(?:: ((?:`[\w.]+`(?:, )?)+))?")


def references() -> list[tuple[str, str]]:
    """File and name of each reference; the name is empty if only the file is named."""
    found: list[tuple[str, str]] = []
    for path, names in _REFERENCE.findall(GUIDE.read_text()):
        found += [(path, name) for name in re.findall(r"`([\w.]+)`", names)] or [(path, "")]
    return found


def names_of(path: Path) -> set[str]:
    """The functions and classes of a module, and their methods as ``Class.method``."""
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, named):
            found.add(node.name)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, named)}
    return found


def test_the_guide_has_references() -> None:
    assert len(references()) > 50


@pytest.mark.parametrize(("path", "name"), references())
def test_reference_of_the_guide_exists_in_the_code(path: str, name: str) -> None:
    module = ROOT / "src" / "pykubelet" / path
    assert module.is_file(), f"{GUIDE.name} names {path}"
    if name:
        assert name in names_of(module), f"{GUIDE.name} names {name} of {path}"
