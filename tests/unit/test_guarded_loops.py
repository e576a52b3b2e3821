"""Every loop over items handles each one under a guard, and a test shows for each guard that one failing item does not
end the loop.

A new ``Guard("name", …)`` or ``supervise("name", …)`` is registered in ``loop_injections.py`` with the test that lets
one of its items raise and sees the others handled; ``conftest.py`` fails that test if none has raised. A new endless
loop, or loop in the ``run`` of a component, either uses a guard or is listed in ``unguarded_loops.txt`` with the reason
why no item can end it. A new ``for`` over records in code of a start, or over the files of a directory, has a guard or
a ``try`` around it or in it, or is listed in ``finite_loops.txt``.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.unit.loop_injections import INJECTIONS

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "src" / "pykubelet"
UNGUARDED = Path(__file__).with_name("unguarded_loops.txt")
FINITE = Path(__file__).with_name("finite_loops.txt")

_LISTINGS = frozenset(("iterdir", "glob", "rglob", "scandir", "listdir", "walk"))
_OF_START = re.compile(r"_*(load|recover|restore|open|clean_up|remove_orphans|retire)(_|$)")
"""Names of functions that run at a start."""
_UNDECIDED = re.compile(r"\b(to ?do|fix ?me|tbd)\b", re.IGNORECASE)

MODULES = [p for p in PRODUCT.rglob("*.py") if not {"pb", "models", "testing"} & set(p.relative_to(PRODUCT).parts)]


def guard_names() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node.func) in {"Guard", "supervise"}:
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: the loop's name is no literal"
                found[str(name.value)] += 1
    return found


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def endless_loops() -> Iterator[tuple[str, ast.AST]]:
    """Functions with ``while True`` or ``async for``, and any ``while`` of ``run``, as ``file:Class.function``."""
    for path in MODULES:
        for name, function in _functions(ast.parse(path.read_text()), ""):
            runs = isinstance(function, ast.AsyncFunctionDef) and function.name == "run"
            if any(_is_endless(node) or (runs and isinstance(node, ast.While)) for node in _own_nodes(function)):
                yield f"{path.relative_to(PRODUCT)}:{name}", function


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = f"{prefix}.{child.name}".lstrip(".") if named else prefix  # type: ignore[attr-defined]
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, child
        yield from _functions(child, name)


def _is_endless(node: ast.AST) -> bool:
    if isinstance(node, ast.AsyncFor):
        return True
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def is_guarded(function: ast.AST) -> bool:
    """Whether it calls a method of a guard or of supervision: ``….item(…)`` in a ``with``, or ``supervise``."""
    for node in ast.walk(function):
        if isinstance(node, ast.With):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "item":
                    return True
    return False


def bare_finite_loops() -> Iterator[str]:
    """Functions with such a ``for`` and neither guard nor ``try``, as ``file:Class.function``."""
    for path in MODULES:
        file = path.relative_to(PRODUCT)
        if file.parts[0] in ("criserver", "kubelet"):
            for name, function in _functions(ast.parse(path.read_text()), ""):
                loops = _unprotected(function, bool(_OF_START.match(name.rpartition(".")[2])))
                if any(loops):
                    yield f"{file}:{name}"


def _unprotected(function: ast.AST, of_start: bool) -> Iterator[bool]:
    listings = {
        target.id
        for node in _own_nodes(function)
        for target, value in _bindings(node)
        if isinstance(target, ast.Name) and _lists_files(value, frozenset())
    }
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _protects(node):
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.For | ast.AsyncFor) and not isinstance(node.iter, ast.Tuple):
            yield (of_start or _lists_files(node.iter, listings)) and not any(map(_protects, _own_nodes(node)))


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.Assign(targets=[target], value=value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.Name() as target):
            yield target, value


def _lists_files(value: ast.AST, listings: Collection[str]) -> bool:
    return any(
        (isinstance(node, ast.Call) and _called(node.func) in _LISTINGS)
        or (isinstance(node, ast.Name) and node.id in listings)
        for node in ast.walk(value)
    )


def _protects(node: ast.AST) -> bool:
    """Whether it is a ``try``, or a ``with`` of a guard's item or of ``suppress``."""
    calls = [item.context_expr for item in node.items] if isinstance(node, ast.With | ast.AsyncWith) else []
    found = {_called(call.func) for call in calls if isinstance(call, ast.Call)}
    return isinstance(node, ast.Try) or not found.isdisjoint(("item", "suppress"))


def reasons(file: Path) -> dict[str, str]:
    rows = (line.partition(" ") for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return {place: reason.strip() for place, _, reason in rows}


def test_every_guard_has_a_name_of_its_own_and_a_test() -> None:
    names = guard_names()
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) == set(INJECTIONS)


@pytest.mark.parametrize("place", sorted(set(INJECTIONS.values())))
def test_injection_named_for_a_guard_exists(place: str) -> None:
    file, _, test = place.partition("::")
    name, _, parameter = test.rstrip("]").partition("[")
    nodes = list(ast.walk(ast.parse((ROOT / "tests" / "unit" / file).read_text())))
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert name in functions
    assert not parameter or parameter in {str(node.value) for node in nodes if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("file", [UNGUARDED, FINITE], ids=lambda file: file.name)
def test_every_listed_loop_has_a_reason(file: Path) -> None:
    assert [place for place, why in reasons(file).items() if len(why) < 20 or _UNDECIDED.search(why)] == []


def test_every_finite_loop_over_files_or_of_a_start_is_guarded_or_listed_with_a_reason() -> None:
    listed, bare = reasons(FINITE), set(bare_finite_loops())
    assert bare - listed.keys() == set(), "use a guard or a try, or list it in finite_loops.txt with the reason"
    assert listed.keys() - bare == set(), "these are guarded or gone: take them off the list"


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("def load(self, records):\n for each in records:\n  self.add(each)", True),
        ("def load(self, records):\n for each in records:\n  with guard.item(each):\n   self.add(each)", False),
        ("def load(self, records):\n for each in records:\n  try:\n   add(each)\n  except OSError:\n   pass", False),
        ("def load(self):\n for each in (1, 2):\n  self.add(each)", False),
        ("def show(self, records):\n for each in records:\n  self.add(each)", False),
        ("def show(self, path):\n for each in sorted(path.iterdir()):\n  read(each)", True),
        ("def show(self, path):\n with os.scandir(path) as files:\n  for each in files:\n   read(each)", True),
        ("def show(self, path):\n with suppress(OSError):\n  for each in path.glob('*'):\n   read(each)", False),
    ],
)
def test_bare_finite_loops_are_recognized(text: str, bare: bool) -> None:
    ((name, function),) = _functions(ast.parse(text), "")
    assert any(_unprotected(function, bool(_OF_START.match(name)))) is bare


def test_every_endless_loop_is_guarded_or_listed_with_a_reason() -> None:
    listed = reasons(UNGUARDED)
    loops = dict(endless_loops())
    bare = {place for place, function in loops.items() if not is_guarded(function)}
    assert bare - listed.keys() == set(), "use a guard, or list it in unguarded_loops.txt with the reason"
    assert listed.keys() - bare == set(), "these are guarded or gone: take them off the list"
