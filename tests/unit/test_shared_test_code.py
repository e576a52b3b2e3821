"""Code that tests share has one place: a module that is no test module, beside them or in ``pykubelet.testing``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_DIRECTORIES = ("benchmarks", "src", "tests", "tools")
_IMPORT = re.compile(r"\b(?:from|import)\s+tests\b")
_VAGUE = {"common", "helper", "helpers", "misc", "shared", "support", "util", "utils"}


def _imported(tree: ast.AST) -> Iterator[str]:
    """The names that a module imports, with their modules; also those that programs in its strings import."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{each.name}" for each in names)
            case ast.Constant(value=str(text)) if _IMPORT.search(text):
                try:
                    yield from _imported(ast.parse(text))
                except SyntaxError:
                    pass  # It is no program.


def _of_tests(text: str) -> list[str]:
    """Those among the names that a module imports which are of test modules, or of modules for pytest only."""
    found = _imported(ast.parse(text)) if _IMPORT.search(text) else ()
    return [name for name in found if re.match(r"tests\.(.*\.)?(test_\w+|conftest)\b", name)]


def test_modules_of_tests_are_imported_by_no_others() -> None:
    paths = [path for name in _DIRECTORIES for path in (_ROOT / name).rglob("*.py")]
    assert len(paths) > 2000
    found = {str(path.relative_to(_ROOT)): names for path in paths if (names := _of_tests(path.read_text()))}
    assert found == {}, "what tests share belongs in a module beside them: CONTRIBUTING.md, Rules"


def test_imports_of_modules_of_tests_are_recognized() -> None:
    package = "tests.unit"
    several = f"from {package} import kit, test_b"
    lines = [
        f"from {package}.test_b import c",
        f"import {package}.test_b as t",
        several,
        f"from {package} import conftest",
    ]
    lines += [f"from {package}.conftest import c", f"from {package}.kit import c", "from aiohttp.test_utils import c"]
    found = _of_tests("\n".join([*lines, f"PROGRAM = {several!r}", f"TEXT = '{several} and'"]))
    expected = ["test_b.c", "test_b", "test_b", "conftest", "conftest.c", "test_b"]
    assert sorted(found) == sorted(f"{package}.{each}" for each in expected)


def test_names_of_modules_that_tests_share_say_what_they_provide() -> None:
    assert [str(path) for path in (_ROOT / "tests").rglob("*.py") if path.stem in _VAGUE] == []
