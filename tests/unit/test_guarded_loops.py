"""Every loop over items handles each one under a guard, and a test shows for each guard that one failing item does not
end the loop.

A new ``Guard("name", …)`` or ``supervise("name", …)`` is registered in ``loop_injections.py`` with the test that lets
one of its items raise and sees the others handled; ``conftest.py`` fails that test if none has raised. A new endless
loop, or loop in the ``run`` of a component, either uses a guard or is listed in ``unguarded_loops.txt`` with the reason
why no item can end it. A new ``for`` over records in code of a start, or over the files of a directory, has a guard or
a ``try`` around it or in it, or is listed in ``finite_loops.txt``. So is a loop, comprehension or ``sorted`` over pods
or sandboxes that calls for each of them what may raise: it has a guard or a ``try`` in it, since one around it would
end the loop for all.
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
_ITEMS = frozenset(("pod", "other", "uid", "worker", "victim", "resized", "sandbox"))
"""Names of loop variables that are one of all pods or sandboxes."""
_COLLECTIONS = frozenset(("pods", "active", "evictable", "workers", "sandboxes"))
_HARMLESS = frozenset(
    (
        *("ref_of", "is_static", "is_mirror", "is_critical", "isinstance", "len", "str", "int", "any", "all", "get"),
        *("pop", "append", "add", "discard", "setdefault", "items", "values", "keys", "sorted", "tuple", "list", "set"),
        *("frozenset", "debug", "info", "warning", "replace", "due", "poke"),
    )
)
"""Functions that raise for no pod; classes count as such."""
_OF_REQUESTS = ("kubelet/desired/check/", "kubelet/serve/", "criserver/server/")
"""Packages whose errors end one request of a client."""
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
                if any(loops) or (not str(file).startswith(_OF_REQUESTS) and any(_over_pods(function, in_loop=False))):
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


def _over_pods(node: ast.AST, in_loop: bool) -> Iterator[ast.AST]:
    """Loops over pods or sandboxes that handle them without a guard or ``try`` for each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or (in_loop and _protects(child)):
            continue
        loops = isinstance(child, ast.For | ast.AsyncFor)
        if _may_raise_for_a_pod(child) and not (loops and any(map(_protects, _own_nodes(child)))):
            yield child
        yield from _over_pods(child, in_loop or loops)


def _may_raise_for_a_pod(node: ast.AST) -> bool:
    match node:
        case ast.For(target=target, iter=over, body=body) | ast.AsyncFor(target=target, iter=over, body=body):
            parts: list[ast.AST] = list(body)
        case (
            ast.ListComp(generators=[first, *more])
            | ast.SetComp(generators=[first, *more])
            | ast.GeneratorExp(generators=[first, *more])
        ):
            target, over, parts = first.target, first.iter, [node.elt, *first.ifs, *more]
        case ast.DictComp(generators=[first, *more]):
            target, over, parts = first.target, first.iter, [node.key, node.value, *first.ifs, *more]
        case ast.Call(func=ast.Name(id="sorted" | "min" | "max"), args=[over], keywords=[*given]) if given:
            target, parts = over, [keyword.value for keyword in given]
        case _:
            return False
    calls = {_called(each.func).lstrip("_") for part in parts for each in ast.walk(part) if isinstance(each, ast.Call)}
    items = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
    risky = any(call not in _HARMLESS and not call[:1].isupper() for call in calls)
    return risky and (not items.isdisjoint(_ITEMS) or _collection(over) in _COLLECTIONS)


def _collection(over: ast.AST) -> str:
    """The name of what is looped over, without copies and views of it; empty for a field of one object."""
    match over:
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "enumerate" | "reversed"), args=[inner, *_]):
            return _collection(inner)
        case ast.Call(func=ast.Attribute(attr="values" | "items", value=inner)):
            return _collection(inner)
        case ast.Call(func=function):
            return _called(function).lstrip("_")
        case ast.Name(id=name) | ast.Attribute(attr=name, value=ast.Name(id="self") | ast.Attribute()):
            return name.lstrip("_")
    return ""


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


def test_every_finite_loop_of_a_class_above_is_guarded_or_listed_with_a_reason() -> None:
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


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("for pod in self.pods():\n  needs_of(pod)", True),
        ("for pod in self.pods():\n  self.seen.add(pod.metadata.uid)", False),
        ("for pod in self.pods():\n  with guard.item(pod.metadata.uid):\n   needs_of(pod)", False),
        ("for pod in self.pods():\n  try:\n   needs_of(pod)\n  except Invalid:\n   pass", False),
        ("try:\n  return [needs_of(pod) for pod in self.pods()]\n except Invalid:\n  return []", True),
        ("with guard.item('round'):\n  for each in self._active():\n   needs_of(each)", True),
        ("return {uid: needs_of(pod) for uid, pod in known.items()}", True),
        ("return {uid: Needs(pod) for uid, pod in known.items()}", False),
        ("return sorted(pods, key=lambda pod: rank(pod))", True),
        ("for volume in pod.spec.volumes:\n  mount(volume)", False),
    ],
)
def test_loops_over_pods_are_recognized(text: str, bare: bool) -> None:
    ((_, function),) = _functions(ast.parse(f"def handle(self, pods, known):\n {text}"), "")
    assert any(_over_pods(function, in_loop=False)) is bare


def test_every_endless_loop_is_guarded_or_listed_with_a_reason() -> None:
    listed = reasons(UNGUARDED)
    loops = dict(endless_loops())
    bare = {place for place, function in loops.items() if not is_guarded(function)}
    assert bare - listed.keys() == set(), "use a guard, or list it in unguarded_loops.txt with the reason"
    assert listed.keys() - bare == set(), "these are guarded or gone: take them off the list"
