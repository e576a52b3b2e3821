"""Every package says what it contains and where to start reading."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/pykubelet"
_WITHOUT_START = {"", "cli/commands", "cli/commands/manifests", "cli/commands/node", "cli/commands/pods", "pb"}
"""The whole, lists of equals, and generated code."""
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


def is_empty(directory: Path) -> bool:
    """Whether a package has neither modules nor packages, as one whose last module was moved away."""
    modules = [path for path in directory.glob("*.py") if path.stem != "__init__"]
    return not modules and not list(directory.glob("*/__init__.py"))


def test_packages_have_a_module_or_a_package() -> None:
    assert [package for package in _PACKAGES if is_empty(PACKAGE / package)] == []


def test_package_without_modules_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    assert is_empty(tmp_path)
    (tmp_path / "plan").mkdir()
    assert is_empty(tmp_path)
    (tmp_path / "plan/__init__.py").touch()
    assert not is_empty(tmp_path)


@pytest.mark.parametrize("package", _PACKAGES)
def test_packages_say_what_they_contain(package: str) -> None:
    assert docstring(package), "no docstring"


@pytest.mark.parametrize("package", [each for each in _PACKAGES if each not in _WITHOUT_START])
def test_packages_say_where_to_start_reading(package: str) -> None:
    file = start(docstring(package))
    assert file, f"{package}/__init__.py: name the file after 'Start reading in'"
    assert any((base / file).is_file() for base in (PACKAGE / package, PACKAGE)), f"{package}: {file} does not exist"


@cache
def _imported(directory: Path) -> frozenset[str]:
    """The names of the project, as paths, that the modules in a directory and below import."""
    found = {name for path in directory.iterdir() if path.is_dir() for name in _imported(path)}
    for file in directory.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pykubelet."):
                module = node.module or ""
                found |= {f"{module}.{name.name}".removeprefix("pykubelet.").replace(".", "/") for name in node.names}
    return frozenset(found)


def siblings(package: str) -> set[str]:
    """The packages beside this one, below the same parent, that it imports."""
    parent = f"{Path(package).parent}/".removeprefix("./")
    names = {
        path.removeprefix(parent).split("/")[0] for path in _imported(PACKAGE / package) if path.startswith(parent)
    }
    return {name for name in names - {Path(package).name} if (PACKAGE / parent / name).is_dir()}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle in a graph, or nothing."""

    def walk(path: list[str]) -> list[str]:
        for following in sorted(graph.get(path[-1], ())):
            if following in path:
                return path[path.index(following) :]
            if following not in done and (found := walk([*path, following])):
                return found
        done.add(path[-1])
        return []

    done: set[str] = set()
    return next((found for node in sorted(graph) if (found := walk([node]))), [])


def test_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("parent", sorted({str(Path(each).parent) for each in _PACKAGES if each}))
def test_packages_beside_each_other_have_no_import_cycle(parent: str) -> None:
    children = [each for each in _PACKAGES if each and str(Path(each).parent) == parent]
    assert cycle({Path(child).name: siblings(child) for child in children}) == []


_IMPORTS = re.compile(r"Imports\s+of\s+(?:the\s+server|this\s+stage):\s+([^.]*)\.")


@pytest.mark.parametrize(
    "package", [each for each in _PACKAGES if str(Path(each).parent) in ("criserver", "kubelet/actuate")]
)
def test_docstring_lists_the_packages_beside_that_are_imported(package: str) -> None:
    found = _IMPORTS.search(docstring(package))
    listed = re.findall(r"`(\w+)`", found[1]) if found else []
    expected = ", ".join(f"``{name}``" for name in sorted(siblings(package)))
    whole = "the server" if package.startswith("criserver") else "this stage"
    assert listed == sorted(siblings(package)), f"{package}/__init__.py: write 'Imports of {whole}: {expected}.'"


_SIBLING_IMPORTS = re.compile(r"Imports\s+beside\s+it:\s+([^.]*)\.|Imports\s+(no)\s+package\s+beside\s+it\.")


@pytest.mark.parametrize("package", [each for each in _PACKAGES if each and Path(each).name != "plan"])
def test_packages_say_what_they_import(package: str) -> None:
    text = docstring(package)
    names = [f"``{name}``" for name in sorted(siblings(package))]
    line = f"Imports beside it: {', '.join(names)}." if names else "Imports no package beside it."
    assert re.search(r"import", text, re.IGNORECASE), f"{package}/__init__.py: write {line!r}"
    found = _SIBLING_IMPORTS.search(text)
    if found:
        assert " ".join(found[0].split()) == line


def outside(package: str) -> list[str]:
    """The packages that a package imports, as dotted names of one part, or two for those of the daemons."""
    found = set()
    for path in _imported(PACKAGE / package):
        if not path.startswith(f"{package}/"):
            parts = path.split("/")
            found.add(".".join(parts[: 2 if parts[0] in ("kubelet", "criserver") else 1]))
    return sorted(found)


@pytest.mark.parametrize("package", [each for each in _PACKAGES if Path(each).name == "plan"])
def test_packages_of_decisions_list_all_that_they_import(package: str) -> None:
    found = re.search(r"Imports\s+((?:``[\w.]+``,?\s*)+|nothing of the project)", docstring(package))
    listed = re.findall(r"``([\w.]+)``", found[1]) if found else None
    expected = ", ".join(f"``{name}``" for name in outside(package)) or "nothing of the project"
    assert listed == outside(package), f"{package}/__init__.py: write 'Imports {expected}'"
