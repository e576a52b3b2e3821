"""Every package says what it contains and where to start reading."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/pykubelet"
_WITHOUT_START = {"", "cli/commands", "pb"}
"""The whole, a list of equals, and generated code."""
_PACKAGES = sorted(str(path.parent.relative_to(PACKAGE)).removeprefix(".") for path in PACKAGE.rglob("__init__.py"))
_START = re.compile(r"[Ss]tart\s+reading\b(.*)", re.DOTALL)
_FILE = re.compile(r"`{1,2}((?:[\w.]+/)*\w+\.py)`{1,2}|``[\w.]+`` in `{1,2}((?:[\w.]+/)*\w+\.py)`{1,2}")


def docstring(package: str) -> str:
    return ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text())) or ""


def start(text: str) -> str | None:
    """The first file after "start reading"; None: the text names none."""
    found = _START.search(text)
    file = _FILE.search(found[1]) if found else None
    return (file[1] or file[2]) if file else None


def test_start_of_reading_is_found() -> None:
    assert (
        start("Some values. Imports nothing; start\nreading at ``base/units.py``, then ``clock.py``.")
        == "base/units.py"
    )
    assert start("Start reading at ``Runner.run`` in ``run.py``.") == "run.py"
    assert start("The rules are in ``errors.py``. Start reading at ``manager``.") is None


@pytest.mark.parametrize("package", _PACKAGES)
def test_packages_say_what_they_contain(package: str) -> None:
    assert docstring(package), "no docstring"


@pytest.mark.parametrize(
    "package", [each for each in _PACKAGES if Path(each).name != "plan" and each not in _WITHOUT_START]
)
def test_packages_say_where_to_start_reading(package: str) -> None:
    file = start(docstring(package))
    assert file, f"{package}/__init__.py: name the file after 'Start reading in'"
    assert any((base / file).is_file() for base in (PACKAGE / package, PACKAGE)), f"{package}: {file} does not exist"
