"""Rules of dependencies: what a component takes when it is constructed."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.unit.syntax import (
    CLASSES,
    COMPOSITION,
    PRODUCT,
    SOURCE,
    fields,
    is_struct,
    methods,
    module_of,
    name_of,
    record_options,
    tree_of,
)

MAX_FIELDS: Final = 8
NOT_KEYWORD_ONLY: Final[frozenset[str]] = frozenset()
"""Classes that may still be constructed by position. Must only become fewer."""

TOO_MANY_FIELDS: Final[Mapping[str, int]] = {}
"""Classes with more fields than allowed, with their number. Must only become fewer."""

RECORDERS: Final = re.compile(r"\b(Clock|EventRecorder|Timeline|\w*Metrics|\w*Meter)\b")
"""Types of the parts of `Telemetry`; a dependency on two of them takes the whole value."""


def deps_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Deps"):
                yield path, node


DEPS: Final = list(deps_classes())


@pytest.mark.parametrize(("path", "node"), DEPS, ids=[f"{module_of(path)}.{node.name}" for path, node in DEPS])
def test_dependencies_are_frozen_keyword_only_records_of_few_fields(path: Path, node: ast.ClassDef) -> None:
    name = name_of(path, node)
    if name not in NOT_KEYWORD_ONLY:
        assert is_struct(node)
        assert record_options(node) == {"frozen": True, "kw_only": True}
    assert len(fields(node)) <= max(MAX_FIELDS, TOO_MANY_FIELDS.get(name, 0))


def test_exceptions_are_still_needed() -> None:
    numbers = {name_of(path, node): len(fields(node)) for path, node in DEPS}
    assert {name: number for name, number in numbers.items() if number > MAX_FIELDS} == TOO_MANY_FIELDS
    assert {name_of(path, node) for path, node in DEPS if not record_options(node).get("kw_only")} == NOT_KEYWORD_ONLY


def test_dependencies_are_passed_by_keyword() -> None:
    names = {node.name for path, node in DEPS if name_of(path, node) not in NOT_KEYWORD_ONLY}
    found = [
        f"{module_of(path)}:{call.lineno}"
        for path in sorted(SOURCE.glob("pykubelet/kubelet/**/*.py"))
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in names
        and (call.args or any(keyword.arg is None for keyword in call.keywords))
    ]
    assert found == []


def parts(node: ast.ClassDef) -> int:
    """Return the number of values that a class takes when it is constructed."""
    constructor = methods(node).get("__init__")
    return len(parameters(constructor)) - 1 if constructor is not None else len(fields(node))


def test_components_take_few_values() -> None:
    """That is what the composition constructs with a constructor of its own, and each record of the composition."""
    calls = (node for path in COMPOSITION for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    constructed = {ast.unparse(call.func) for call in calls}
    modules = {module_of(path) for path in COMPOSITION}
    numbers = {
        f"{module}.{node.name}": parts(node)
        for module, node in CLASSES
        if module in modules or (node.name in constructed and "__init__" in methods(node))
    }
    assert len(numbers) > 100
    assert {name: number for name, number in numbers.items() if number > MAX_FIELDS} == {}


def test_values_that_a_component_takes_are_counted() -> None:
    tree = ast.parse(
        """
class A:
    def __init__(self, a, *, b, c): ...
class B(Struct):
    a: int
    b: int
"""
    )
    assert [parts(node) for node in tree.body if isinstance(node, ast.ClassDef)] == [3, 2]


WITH_DEPS: Final = [path for path in PRODUCT if re.search("[Dd]eps", path.read_text())]


def passes_on(tree: ast.Module) -> list[int]:
    """Return the lines of calls that pass on a whole Deps value: a parameter, an attribute, or another name of one."""
    lines = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            whole = whole_deps(function)
            lines += [
                call.lineno
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                and whole & {spelled(each) for each in (*call.args, *(key.value for key in call.keywords))}
            ]
    return lines


def whole_deps(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    whole = {"self._deps", "self.deps", *(each.arg for each in parameters(function) if is_deps(each.annotation))}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            pairs = (pair for target in node.targets for pair in assigned(target, node.value))
            whole |= {spelled(target) for target, value in pairs if spelled(value) in whole}
    return whole


def assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return each target of an assignment with its value, those of tuples one by one."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [pair for one in zip(target.elts, value.elts, strict=False) for pair in assigned(*one)]
    return [(target, value)]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def spelled(node: ast.expr) -> str:
    """Return a name or attribute as it is written; empty for any other expression."""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def is_deps(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'").endswith("Deps")


def test_dependencies_are_not_passed_on() -> None:
    found = [f"{module_of(path)}:{line}" for path in WITH_DEPS for line in passes_on(tree_of(path))]
    assert found == [], "give each component what it uses as arguments of its own"


def test_dependencies_that_are_passed_on_are_recognized() -> None:
    bad = """
def build(deps: PartDeps) -> None:
    given = deps
    Part(given)
class Part:
    def make(self) -> Part:
        return Part(deps=self._deps)
    def use(self) -> Part:
        return Part(self._deps.clock)
    def serve(self) -> Part:
        config, deps = self._config, self._deps
        return Part(config, deps)
"""
    assert passes_on(ast.parse(bad)) == [4, 7, 12]


def takers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Return the Deps types that functions and constructors take, with the function or class that takes them."""
    for node in tree.body:
        functions = methods(node).values() if isinstance(node, ast.ClassDef) else (node,)
        for function in functions:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in parameters(function):
                    if each.annotation is not None and is_deps(each.annotation):
                        yield ast.unparse(each.annotation).strip("'"), getattr(node, "name", "")


def test_dependencies_of_each_type_are_taken_by_one_component() -> None:
    """The two daemons do not import each other, so they may have classes of the same name."""
    found: dict[str, set[str]] = {}
    for path in WITH_DEPS:
        for deps, taker in takers(tree_of(path)):
            daemon = path.relative_to(SOURCE).parts[1]
            found.setdefault(f"{daemon}.{deps}", set()).add(f"{module_of(path)}.{taker}")
    assert len(found) > 20
    several = {deps: sorted(names) for deps, names in found.items() if len(names) > 1}
    assert several == {}, "what a component takes, it uses: give each a Deps class of its own"


def test_components_that_take_dependencies_are_recognized() -> None:
    tree = ast.parse(
        """
class Part:
    def __init__(self, deps: PartDeps, *, others: 'OtherDeps') -> None: ...
def build(deps: PartDeps) -> Part: ...
"""
    )
    assert list(takers(tree)) == [("PartDeps", "Part"), ("OtherDeps", "Part"), ("PartDeps", "build")]


def deps_in(node: ast.ClassDef) -> list[str]:
    """Return the fields of a record whose type is a Deps class, or has one in it."""
    return [
        ast.unparse(each.target)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and re.search(r"Deps\b", ast.unparse(each.annotation))
    ]


def test_dependencies_contain_no_dependencies() -> None:
    assert {name_of(path, node): inner for path, node in DEPS if (inner := deps_in(node))} == {}


def test_dependencies_in_dependencies_are_recognized() -> None:
    (node,) = ast.parse("class ADeps(Struct):\n    a: int\n    b: BDeps\n    c: 'CDeps | None'").body
    assert isinstance(node, ast.ClassDef)
    assert deps_in(node) == ["b", "c"]


@pytest.mark.parametrize(("path", "node"), DEPS, ids=[f"{module_of(path)}.{node.name}" for path, node in DEPS])
def test_recorders_travel_as_one_value(path: Path, node: ast.ClassDef) -> None:
    found = [
        ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign) and is_recorder(each.annotation)
    ]
    assert len(found) < 2, "take a Telemetry (kubelet/telemetry.py)"


def is_recorder(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return not text.startswith("Telemetry[") and RECORDERS.fullmatch(text.strip("'")) is not None
