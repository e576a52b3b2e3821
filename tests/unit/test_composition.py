"""Rules of composition: how the components are constructed and connected."""

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
MAX_FIELDS: Final = 8

NOT_KEYWORD_ONLY: Final[frozenset[str]] = frozenset()
"""Classes that may still be constructed by position. Must only become fewer."""

TOO_MANY_FIELDS: Final[Mapping[str, int]] = {}
"""Classes with more fields than allowed, with their number. Must only become fewer."""

MAX_METHODS: Final = 12

ONE_CLASS_PER_CALL: Final = ("criserver/container", "criserver/sandbox")
"""Packages of components with few methods that are constructed by keyword."""

CONSTRUCTED_BY_POSITION: Final = frozenset({"Container", "Sandbox", "AppArmorProfiles", "_Program"})
"""Values and helpers of these packages. Must only become fewer."""

PASSED_ON: Final[Mapping[str, frozenset[str]]] = {
    "criserver": frozenset(),
    "kubelet": frozenset(
        {
            "pykubelet.kubelet.actuate.assembly",
            "pykubelet.kubelet.compose.node_mode",
            "pykubelet.kubelet.control.workers.pod_workers",
            "pykubelet.kubelet.control.workers.steps",
            "pykubelet.kubelet.control.workers.pod_worker",
            "pykubelet.kubelet.observe.probes.probe_manager",
            "pykubelet.kubelet.serve.local_socket.local_server",
        }
    ),
}
"""Modules that pass their whole dependencies on to another component, by root package. Must only become fewer."""


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def name_of(path: Path, node: ast.ClassDef) -> str:
    return f"{path.relative_to(SOURCE).parts[1]}.{node.name}"


def deps_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Deps"):
                yield path, node


DEPS: Final = list(deps_classes())


def dataclass_options(node: ast.ClassDef) -> Mapping[str, object]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "dataclass":
            return {key.arg or "": ast.literal_eval(key.value) for key in decorator.keywords}
    return {}


def fields(node: ast.ClassDef) -> list[str]:
    """Return the fields that a caller passes."""
    return [
        ast.unparse(each.target)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "init=False" not in ast.unparse(each)
    ]


@pytest.mark.parametrize(("path", "node"), DEPS, ids=[f"{module_of(path)}.{node.name}" for path, node in DEPS])
def test_dependencies_are_frozen_keyword_only_dataclasses_of_few_fields(path: Path, node: ast.ClassDef) -> None:
    name = name_of(path, node)
    if name not in NOT_KEYWORD_ONLY:
        assert dataclass_options(node) == {"frozen": True, "slots": True, "kw_only": True}
    assert len(fields(node)) <= max(MAX_FIELDS, TOO_MANY_FIELDS.get(name, 0))


def test_exceptions_are_still_needed() -> None:
    numbers = {name_of(path, node): len(fields(node)) for path, node in DEPS}
    assert {name: number for name, number in numbers.items() if number > MAX_FIELDS} == TOO_MANY_FIELDS
    assert {
        name_of(path, node) for path, node in DEPS if not dataclass_options(node).get("kw_only")
    } == NOT_KEYWORD_ONLY


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


def components() -> Iterator[tuple[str, ast.ClassDef]]:
    for package in ONE_CLASS_PER_CALL:
        for path in sorted((SOURCE / "pykubelet" / package).glob("*.py")):
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef):
                    yield f"{module_of(path)}.{node.name}", node


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_components_of_calls_are_constructed_by_keyword() -> None:
    by_position = {
        node.name
        for _, node in components()
        if "__init__" in methods(node) and len(methods(node)["__init__"].args.args) > 1
    }
    assert by_position == CONSTRUCTED_BY_POSITION


def test_components_of_calls_have_few_public_methods() -> None:
    numbers = {name: sum(not each.startswith("_") for each in methods(node)) for name, node in components()}
    assert len(numbers) > 30
    assert {name: number for name, number in numbers.items() if number > MAX_METHODS} == {}


def passes_on(tree: ast.Module) -> bool:
    """Whether a function with a parameter of a Deps class, or a method with such an attribute, passes all of it on."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = (*function.args.args, *function.args.kwonlyargs)
            whole = {"self._deps", *(each.arg for each in parameters if is_deps(each.annotation))}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and whole & {
                    ast.unparse(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))
                }:
                    return True
    return False


def is_deps(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'").endswith("Deps")


@pytest.mark.parametrize("root", PASSED_ON)
def test_dependencies_are_not_passed_on(root: str) -> None:
    found = {
        module_of(path) for path in sorted((SOURCE / "pykubelet" / root).rglob("*.py")) if passes_on(tree_of(path))
    }
    assert found <= PASSED_ON[root], "give each component what it uses as arguments of its own"


_ASSIGN: Final = (ast.AugAssign, ast.AnnAssign)
COMPOSITION: Final = [SOURCE / "pykubelet/kubelet/main.py", *sorted(SOURCE.glob("pykubelet/kubelet/compose/*.py"))]


def found(pattern: Callable[[ast.AST], bool]) -> list[str]:
    """Return the places in the composition of the kubelet where a node of the syntax tree matches."""
    return [
        f"{module_of(path)}:{getattr(node, 'lineno', 0)}"
        for path in COMPOSITION
        for node in ast.walk(tree_of(path))
        if pattern(node)
    ]


def test_composition_passes_no_unpacked_positional_arguments() -> None:
    assert found(lambda n: isinstance(n, ast.Call) and any(isinstance(a, ast.Starred) for a in n.args)) == []


def test_composition_changes_no_component_after_its_construction() -> None:
    def assigns(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, _ASSIGN) else []
        return any(isinstance(t, ast.Attribute) and ast.unparse(t.value) != "self" for t in targets)

    def sets(node: ast.AST) -> bool:
        name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        return name.startswith(("set_", "on_", "report_to")) and name != "on_hung"

    assert found(lambda node: assigns(node) or sets(node)) == []


def test_composition_has_no_lambda_that_reads_a_component_later() -> None:
    def late(node: ast.AST) -> bool:
        return isinstance(node, ast.Lambda) and any(isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(node))

    assert found(late) == []


def imports(path: Path) -> set[str]:
    """Return the modules that a module imports anywhere, also for types only or within a function."""
    modules: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def test_composition_has_no_import_cycle_even_for_types() -> None:
    graph = {module_of(path): imports(path) for path in COMPOSITION}
    graph = {name: used & graph.keys() - {name} for name, used in graph.items()}
    tuple(TopologicalSorter(graph).static_order())
