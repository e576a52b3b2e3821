"""Names of files in documents, docstrings and comments are those of files that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_MENTION = re.compile(r"(?<![\w{}*<>$-])(?:[\w.-]+/)*\w[\w-]*\.py\b(?![\w({*])")
_EXAMPLES = {
    "tests/unit/tools",
    "CHANGELOG.md",
    "docs/adr",
    "tests/unit/test_references.py",
    "tests/unit/test_architecture.py",
    "tools/gen_proto.py",
}
"""Their names of files are examples, or history."""


def _tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name]
    return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts]


_FILES = _tracked()
_SUFFIXES = {"/".join(parts[i:]) for parts in (name.split("/") for name in _FILES) for i in range(len(parts))}
_QUOTED = re.compile(r"`((?:[a-z_]+[./])+\w+)`")
_RETIRED = {"decide", "ports", "manager", "interfaces", "types"}
"""Last names of modules that were renamed; directories with such a name exist."""
_PATHS = _SUFFIXES | {suffix.rpartition("/")[0] for suffix in _SUFFIXES}
_READ = [
    name
    for name in _FILES
    if name.endswith((".py", ".md", ".txt", ".toml")) and not any(name.startswith(each) for each in _EXAMPLES)
]


def missing(text: str) -> set[str]:
    """The names of Python files in a text that no file of the project has."""
    return {found for found in _MENTION.findall(text) if found.removeprefix("./") not in _SUFFIXES}


def retired(text: str) -> set[str]:
    """The quoted names, such as ``images.manager`` or ``decide.rules``, of modules with names that none has now."""
    found = set()
    for name in _QUOTED.findall(text):
        parts = re.split(r"[./]", name)
        for i, part in enumerate(parts):
            module = "/".join(parts[: i + 1])
            if part in _RETIRED and (i or len(parts) > 1) and not {module, f"{module}.py"} & _PATHS:
                found.add(name)
    return found


def test_retired_modules_are_recognized() -> None:
    text = "``images.manager`` or `decide.rule`; ``types.resize``, and ``criserver/types`` exist"
    assert retired(text) == {"images.manager", "decide.rule"}


def test_missing_files_are_recognized() -> None:
    text = "see `base/clock.py`, base/no_such_clock.py, ``clock.py`` and {name}.py, *.py or NAME_pb2.py"
    assert missing(text) == {"base/no_such_clock.py", "NAME_pb2.py"}


@pytest.mark.parametrize("name", _READ)
def test_files_that_a_text_names_exist(name: str) -> None:
    path = ROOT / name
    if path.is_file():
        text = path.read_text(errors="replace")
        assert missing(text) == set()
        assert retired(text) == set()
