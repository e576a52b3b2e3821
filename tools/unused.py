"""``make lint``: report public classes, functions, methods, properties and constants that no code of the product uses.

vulture finds them by their names, so a name that is used anywhere counts as used. Names of modules are
therefore also looked for in the imports of the other modules. Code that only tests use is reported too: it is either
left over, or a rule that nothing applies. ``tools/unused_allowed.txt`` lists the exceptions, each with a reason.

Exit status: 0 clean; 1 unused names were found, one line each; 2 the list of exceptions is wrong.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, TypeAlias

from vulture import Vulture

_ROOT = Path(__file__).parents[1]
_ALLOWED = _ROOT / "tools" / "unused_allowed.txt"
_PRODUCT = Path("src/pykubelet")
_NOT_OURS: Final = ("*/pb/*", "*/models/*_v1*.py", "*/models/generated/*", "*/pykubelet/testing/*")
"""Generated code, and the test kit, which tests use."""
_KINDS: Final = ("class", "function", "method", "property")
"""Variables and attributes of classes are left out: fields of Kubernetes objects look unused."""
_Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITION: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_DECORATORS: Final = ("@*.command", "@*.group")
"""Of click, which calls the decorated functions."""


@dataclass(frozen=True, slots=True)
class UnusedDefinition:
    """A definition without a use."""

    path: str
    line: int
    kind: str
    name: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: unused {self.kind} {self.name!r}: remove it, or call it where its rule applies"
        )


def look(root: Path, product: Path = _PRODUCT) -> Iterator[UnusedDefinition]:
    """The unused public definitions below ``root / product``."""
    vulture = Vulture(ignore_decorators=list(_DECORATORS))
    vulture.scavenge([root / product], exclude=list(_NOT_OURS))
    for item in vulture.get_unused_code(min_confidence=60):
        if item.typ in _KINDS and not item.name.startswith("_"):
            path = Path(item.filename).resolve().relative_to(root.resolve())
            yield UnusedDefinition(str(path), item.first_lineno, item.typ, item.name)


def unimported(root: Path, product: Path = _PRODUCT) -> Iterator[UnusedDefinition]:
    """The public classes, functions and constants of modules that neither their module uses nor another one imports."""
    paths = [path for path in (root / product).rglob("*.py") if not any(fnmatch(str(path), one) for one in _NOT_OURS)]
    trees = {path: ast.parse(path.read_text()) for path in paths}
    names = {path: ".".join(path.relative_to(root / product.parent).with_suffix("").parts) for path in paths}
    used = {use for path, tree in trees.items() if path.name != "__init__.py" for use in _uses(tree)}
    for package in (path for path in paths if path.name == "__init__.py"):
        name = names.pop(package).removesuffix(".__init__")
        used |= {(module, what) for module, what in _uses(trees[package]) if (name, what) in used}
    for path, module in names.items():
        names_read = (node for node in ast.walk(trees[path]) if isinstance(node, ast.Name))
        own = {node.id for node in names_read if isinstance(node.ctx, ast.Load)}
        for line, kind, name in _defined(trees[path]):
            if not name.startswith("_") and name not in own and (module, name) not in used:
                yield UnusedDefinition(str(path.relative_to(root)), line, kind, name)


def _defined(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The line, kind and name of the classes, functions and constants of a module."""
    for node in tree.body:
        if isinstance(node, _DEFINITION):
            if not _is_called_by_library(node):
                yield node.lineno, "class" if isinstance(node, ast.ClassDef) else "function", node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name) and each.id.isupper():
                        yield node.lineno, "constant", each.id


def _uses(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a module imports, and the attributes of modules that it imports, each with its module."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.module, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield aliases[node.value.id], node.attr


def _is_called_by_library(node: _Definition) -> bool:
    return any(re.search(r"\.(command|group)\b", ast.unparse(each)) for each in node.decorator_list)


def allowed(text: str) -> set[tuple[str, str]]:
    """Parse the exceptions: ``path: name  # reason`` in each line. ValueError: a line is not of this form."""
    found = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"(\S+): (\w+) +# \S.*", line)
            if match is None:
                raise ValueError(f"{line!r} is not of the form 'path: name  # reason'")
            found.add((match[1], match[2]))
    return found


def check(root: Path, exceptions: str) -> tuple[int, list[str]]:
    """The exit status and the lines to print."""
    try:
        accepted = allowed(exceptions)
    except ValueError as error:
        return 2, [f"{_ALLOWED.name}: {error}"]
    found = {(each.path, each.name): str(each) for each in (*look(root), *unimported(root))}
    needless = sorted(accepted - found.keys())
    if needless:
        return 2, [f"{_ALLOWED.name}: {path}: {name} is used, or gone: remove the line" for path, name in needless]
    lines = [line for key, line in found.items() if key not in accepted]
    return bool(lines), lines


def main() -> int:
    """Check the project; returns the exit status."""
    status, lines = check(_ROOT, _ALLOWED.read_text())
    print("\n".join(lines), end="\n" if lines else "")
    return status


if __name__ == "__main__":
    sys.exit(main())
