"""The changes that `make mutants` makes to a module: one place each, of the kinds of common mistakes."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Final

_PRODUCT = Path(__file__).resolve().parents[1] / "src" / "pykubelet"
_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of a module to be changed."""

    module: str
    line: int
    name: str
    """Module, function, original and replacement: does not depend on line numbers."""
    place: int
    kind: int


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module in the order of its lines: in functions only, without log messages and error texts."""
    seen: dict[str, int] = {}
    for place, (function, node, parent) in enumerate(_places(ast.parse(source))):
        for kind, (before, after, _) in enumerate(_changes(node, parent)):
            name = f"{module}:{function}: {before} -> {after}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            yield Mutant(module, node.lineno, name, place, kind)


def compiled(mutant: Mutant, source: str) -> CodeType:
    """The code of the whole module with the mutant's place changed, as if read from the module's file."""
    tree = ast.parse(source)
    _, node, parent = list(_places(tree))[mutant.place]
    _, _, change = list(_changes(node, parent))[mutant.kind]
    change()
    return compile(ast.fix_missing_locations(tree), str(_PRODUCT / mutant.module), "exec")


_Node = ast.expr | ast.stmt
_Place = tuple[str, _Node, ast.AST]
_Change = tuple[str, str, Callable[[], None]]


def _places(tree: ast.AST) -> Iterator[_Place]:
    """Function, node and its parent, for every expression and statement within functions."""

    def walk(node: ast.AST, path: str, inside: bool) -> Iterator[_Place]:
        for child in _children(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                deeper = f"{path}.{child.name}".lstrip(".")
                yield from walk(child, deeper, inside or not isinstance(child, ast.ClassDef))
            elif not _is_reported(child):
                if inside and isinstance(child, ast.expr | ast.stmt):
                    yield path, child, node
                yield from walk(child, path, inside)

    return walk(tree, "", False)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.body  # decorators, defaults and annotations are evaluated at definition
    elif isinstance(node, ast.AnnAssign):
        yield from (child for child in (node.target, node.value) if child is not None)
    elif isinstance(node, ast.Raise):
        return  # the text of an error
    else:
        yield from ast.iter_child_nodes(node)


def _is_reported(node: ast.AST) -> bool:
    """A log call, a docstring or an assertion for the type checker."""
    if isinstance(node, ast.Expr):
        value = node.value
        if isinstance(value, ast.Constant):
            return True
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "assert_never":
            return True
        return (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and isinstance(value.func.value, ast.Name)
            and value.func.value.id in ("_log", "log")
        )
    return isinstance(node, ast.Assert | ast.Pass | ast.JoinedStr)


def _changes(node: _Node, parent: ast.AST) -> Iterator[_Change]:
    text = _short(node)
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            other = _COMPARED[type(op)]()

            def compare() -> None:
                node.ops = [other]

            yield text, type(other).__name__, compare
        case ast.BoolOp(op=op):
            turned = ast.Or() if isinstance(op, ast.And) else ast.And()

            def connect() -> None:
                node.op = turned

            yield text, type(turned).__name__, connect
        case ast.UnaryOp(op=ast.Not()):

            def affirm() -> None:
                node.op = ast.Not()
                node.operand = ast.UnaryOp(ast.Not(), node.operand)

            yield text, "without not", affirm
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            computed = _COMPUTED[type(op)]()

            def compute() -> None:
                node.op = computed

            yield text, type(computed).__name__, compute
        case ast.Constant(value=bool(value)):

            def negate() -> None:
                node.value = not value

            yield f"{value} in {_short(parent)}", str(not value), negate
        case ast.Constant(value=int(value)) if not isinstance(value, bool):

            def add(number: int = value) -> None:
                node.value = number + 1

            yield f"{value} in {_short(parent)}", str(value + 1), add
        case ast.If() | ast.While() | ast.IfExp():
            test = _short(node.test)

            def never() -> None:
                node.test = ast.BoolOp(ast.And(), [node.test, ast.Constant(False)])

            def always() -> None:
                node.test = ast.BoolOp(ast.Or(), [node.test, ast.Constant(True)])

            yield f"if {test}", "never", never
            if not isinstance(node, ast.While):
                yield f"if {test}", "always", always
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.AugAssign():
            yield text, "nothing", lambda: _replace(parent, node, _never(node))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield text, "nothing", lambda: _replace(parent, node, _never(node))
        case ast.Break():
            yield "break", "continue", lambda: _replace(parent, node, ast.Continue())
        case ast.Continue():
            yield "continue", "break", lambda: _replace(parent, node, ast.Break())
        case ast.Return(value=value) if value is not None and not _is_as_false_as_none(value):

            def nothing() -> None:
                node.value = ast.Subscript(
                    ast.Tuple([value, ast.Constant(None)], ast.Load()), ast.Constant(1), ast.Load()
                )

            yield text, "return None", nothing


def _is_as_false_as_none(value: ast.expr) -> bool:
    """Of False only the truth is asked for."""
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)


def _never(node: ast.stmt) -> ast.stmt:
    """A statement that does nothing, but mentions the same names: a function keeps its kind and its variables."""
    return ast.If(ast.Constant(False), [node], [])


def _replace(parent: ast.AST, node: ast.stmt, other: ast.stmt) -> None:
    for _, value in ast.iter_fields(parent):
        if isinstance(value, list) and node in value:
            value[value.index(node)] = ast.copy_location(other, node)
            return
    raise AssertionError(f"{ast.dump(node)} is not in a body of its parent")


def _short(node: ast.AST) -> str:
    words = " ".join(ast.unparse(node).split())
    return words if len(words) <= 70 else words[:67] + "..."
