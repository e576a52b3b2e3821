"""Composition contains no rules, as far as a program can tell, and what of it has behavior is named by a unit test."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.unit.syntax import SOURCE, module_of, tree_of

COMPOSITION: Final = [
    path
    for pattern in (
        "kubelet/main",
        "kubelet/compose/**/*",
        "kubelet/**/*assembly",
        "criserver/main",
        "criserver/compose/*",
        "criserver/*/build",
    )
    for path in sorted(SOURCE.glob(f"pykubelet/{pattern}.py"))
]
"""The modules that construct the components of both daemons, and the adapters between them."""

EXCEPTIONS: Final[Mapping[str, str]] = {
    "pykubelet.kubelet.compose.cluster.certificates.NodeCertificates.addresses_seen": "passes a change on only once",
}
"""Functions that compare or compute, with the reason. Must only become fewer: move the rule to a package ``plan``."""

ARITHMETIC: Final = frozenset({"abs", "divmod", "max", "min", "pow", "round"})
READS_TEXT: Final = frozenset(
    {
        *("endswith", "partition", "removeprefix", "removesuffix", "replace", "rpartition", "rsplit", "split"),
        *("splitlines", "startswith", "strip", "lstrip", "rstrip"),
    }
)
"""Methods of text: what a name means is a rule of those who give it."""


def is_rule(node: ast.AST) -> bool:
    """Whether a node compares or computes values of the domain.

    None, booleans and identities may be tested, and members of an enumeration may be looked up in what was decided
    elsewhere. Sets may be united, paths joined, and the time may be measured that has passed.
    """
    match node:
        case ast.Compare(left, [ast.In() | ast.NotIn()]):
            return not (isinstance(left, ast.Attribute) and left.attr.isupper())
        case ast.Compare(ops=ops):
            return not all(isinstance(each, ast.Is | ast.IsNot) for each in ops)
        case ast.BinOp(op=ast.BitOr()):
            return False
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str())):
            return False
        case ast.BinOp(ast.Call(ast.Attribute(attr="monotonic" | "now")), ast.Sub()):
            return False
        case ast.BinOp() | ast.AugAssign() | ast.UnaryOp(op=ast.USub() | ast.Invert()):
            return True
        case ast.Call(ast.Name(id=name)):
            return name in ARITHMETIC
        case ast.Call(ast.Attribute(attr=name)):
            return name in READS_TEXT
    return False


def rules(tree: ast.Module, module: str) -> Iterator[tuple[str, int]]:
    """Yield the name of the function, or of the class or module, and the line of each rule; annotations are none."""

    def visit(node: ast.AST, name: str) -> Iterator[tuple[str, int]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    inner = f"{name}.{child.name}" if isinstance(child, ast.ClassDef | _FUNCTIONS) else name
                    if is_rule(child):
                        yield inner, getattr(child, "lineno", 0)
                    yield from visit(child, inner)

    yield from visit(tree, module)


_FUNCTIONS: Final = ast.FunctionDef | ast.AsyncFunctionDef


def test_composition_contains_no_rules() -> None:
    assert len(COMPOSITION) > 50
    found = [place for path in COMPOSITION for place in rules(tree_of(path), module_of(path))]
    assert [place for place in found if place[0] not in EXCEPTIONS] == [], (
        "move the rule to a package plan, with a test"
    )
    assert EXCEPTIONS.keys() <= {name for name, _ in found}, "no longer exceptions"


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        ("a is None or b is not Kind.FILE or not c", False),
        ("Kind.FILE in wanted", False),
        ("names | others", False),
        ("settings.root / 'seccomp'", False),
        ("clock.monotonic() - begun", False),
        ("def build(a: int | None = None) -> dict[str, str]: return a", False),
        ("a == 'LimitedSwap'", True),
        ("name in known", True),
        ("clock.monotonic() - begun > 10", True),
        ("lease / 4", True),
        ("2 * period", True),
        ("max(a, b)", True),
        ("owner.partition('/')", True),
        ("count += 1", True),
        ("x = -1000", True),
    ],
)
def test_comparisons_and_arithmetic_are_recognized(code: str, is_one: bool) -> None:
    assert bool(list(rules(ast.parse(code), "module"))) is is_one


def passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is one statement without a condition, loop or comprehension, such as a call passed on."""
    body = function.body[bool(ast.get_docstring(function)) :]
    branches = (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    return len(body) <= 1 and all(
        isinstance(each, ast.Return | ast.Expr | ast.Pass | ast.Assign)
        and not any(isinstance(inner, branches) for inner in ast.walk(each))
        for each in body
    )


def with_behavior(tree: ast.Module) -> list[str]:
    """Return the public classes that do more than pass calls on."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not any(ast.unparse(base) == "Protocol" for base in node.bases):
            methods = [each for each in node.body if isinstance(each, _FUNCTIONS) and each.name != "__init__"]
            if not all(map(passes_on, methods)):
                found.append(node.name)
    return [name for name in found if not name.startswith("_")]


UNIT_TESTS: Final = Path(__file__).parent


@functools.cache
def names_by_module() -> Mapping[str, frozenset[str]]:
    """Return the names in the test modules that import a module, by module."""
    modules = {module_of(path).rpartition(".")[0] for path in COMPOSITION}
    found: dict[str, set[str]] = {}
    for path in UNIT_TESTS.rglob("*.py"):
        text = path.read_text()
        if not any(module in text for module in modules):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        names = {each.id for each in nodes if isinstance(each, ast.Name)}
        names |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    found.setdefault(module, set()).update(names)
    return {module: frozenset(names) for module, names in found.items()}


COVERED_ELSEWHERE: Final[Mapping[str, str]] = {}
"""Classes without a unit test of their own, with the reason. Must only become fewer."""


def test_composition_with_behavior_is_named_by_a_unit_test() -> None:
    found = {
        f"{module_of(path)}.{name}"
        for path in COMPOSITION
        for name in with_behavior(tree_of(path))
        if name not in names_by_module().get(module_of(path), ())
    }
    assert found == COVERED_ELSEWHERE.keys(), "write a short test of it, with fakes"


def test_behavior_is_recognized() -> None:
    code = """
class Passes:
    def __init__(self, a):
        self.a = a if a else 1
    async def call(self, x):
        \"\"\"Text.\"\"\"
        return await self.a.call(x)
class Decides:
    def call(self, x):
        return self.a.call(x) if x else None
class Does:
    def call(self, x):
        self.a.call(x)
        self.b.call(x)
class _Hidden:
    def call(self, x):
        return [each for each in x]
"""
    assert with_behavior(ast.parse(code)) == ["Decides", "Does"]
