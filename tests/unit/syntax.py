"""The syntax trees of the source: what the rules of composition and of dependencies read."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

SOURCE = Path(__file__).resolve().parents[2] / "src"
PRODUCT: Final = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[1] not in {"pb", "models", "testing"}
]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def name_of(path: Path, node: ast.ClassDef) -> str:
    return f"{path.relative_to(SOURCE).parts[1]}.{node.name}"


def is_dataclass(node: ast.ClassDef) -> bool:
    return any(ast.unparse(each).startswith(("dataclass", "dataclasses.dataclass")) for each in node.decorator_list)


def is_struct(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in {"Struct", "msgspec.Struct"} for base in node.bases)


def record_options(node: ast.ClassDef) -> Mapping[str, object]:
    """Return the options of a record: a Struct, or a dataclass."""
    keywords = list(node.keywords) if is_struct(node) else []
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "dataclass":
            keywords += decorator.keywords
    return {key.arg or "": ast.literal_eval(key.value) for key in keywords}


def fields(node: ast.ClassDef) -> list[str]:
    """Return the fields that a caller passes."""
    return [
        ast.unparse(each.target)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "init=False" not in ast.unparse(each)
    ]


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def product_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in PRODUCT:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                yield module_of(path), node


CLASSES: Final = list(product_classes())


def bases_of(node: ast.ClassDef) -> list[str]:
    """Return the names of the base classes, without their modules and type arguments."""
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


COMPOSITION: Final = [
    path
    for pattern in (
        "kubelet/main",
        "kubelet/compose/**/*",
        "kubelet/**/*assembly",
        "criserver/compose/*",
        "criserver/*/build",
    )
    for path in sorted(SOURCE.glob(f"pykubelet/{pattern}.py"))
]
"""The modules that construct the components of both daemons."""
