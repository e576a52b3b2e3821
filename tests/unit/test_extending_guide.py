"""docs/extending.md names functions and tables that are in the files that it names them of."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "src" / "pykubelet"
GUIDE = ROOT / "docs" / "extending.md"
_CLAUSE = re.compile(r"\n(?=\d\. |\n|#)|;|(?<=`)\. ")
_NAME = re.compile(r"[A-Za-z_][\w.]*(?:\(\))?")


def names_in_files(text: str) -> Iterator[tuple[str, str]]:
    """Each quoted name of a clause, with the file or directory that the clause names before it."""
    for clause in _CLAUSE.split(text):
        path = ""
        for quoted in re.findall(r"`([^`]+)`", clause):
            if "/" in quoted or quoted.endswith(".py"):
                path = quoted
            elif path and _NAME.fullmatch(quoted):
                yield path, quoted.removesuffix("()").rpartition(".")[2]


def text_of(path: str) -> str:
    """The text of a file, or of all modules of a directory; empty: neither exists."""
    found = next((base / path for base in (PRODUCT, ROOT) if (base / path).exists()), PRODUCT)
    files = found.rglob("*.py") if found.is_dir() else [found]
    return "\n".join(file.read_text() for file in files) if found != PRODUCT else ""


def test_names_of_a_clause_belong_to_the_file_before_them() -> None:
    text = "1. `clock.py` `one`, `Two.three`; `base/errors.py`: `four()`.\n2. `alone`"
    assert list(names_in_files(text)) == [("clock.py", "one"), ("clock.py", "three"), ("base/errors.py", "four")]


@pytest.mark.parametrize(("path", "name"), sorted(set(names_in_files(GUIDE.read_text()))))
def test_name_is_in_the_file(path: str, name: str) -> None:
    assert re.search(rf"\b{name}\b", text_of(path)), f"{GUIDE.name} names {name} of {path}"
