"""Rules of composition: how the components are constructed and connected."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
MAX_FIELDS: Final = 8

NOT_KEYWORD_ONLY: Final[frozenset[str]] = frozenset()
"""Classes that may still be constructed by position. Must only become fewer."""

TOO_MANY_FIELDS: Final = {
    "kubelet.ActuatorDeps": 11,
    "kubelet.ClusterDeps": 11,
    "kubelet.NodeServerDeps": 11,
    "kubelet.NodeStatusDeps": 10,
    "kubelet.PodResourcesDeps": 9,
    "kubelet.PodRuntimeDeps": 13,
    "kubelet.WorkerDeps": 11,
}
"""Classes with more fields than allowed, with their number. Must only become fewer."""


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
