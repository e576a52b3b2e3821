"""An object of a daemon removes entries from each collection that it adds to.

A dictionary, set or list that entries are only ever added to grows as long as the daemon runs, with each pod, image
or client. Attributes that begin empty and are added to must be removed from in the same class, or be listed in
``growing_collections.txt`` with the reason why they stay small.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[2] / "src" / "pykubelet"
LISTED = Path(__file__).with_name("growing_collections.txt")
DAEMONS = ("apiclient", "base", "criserver", "kubelet", "linux")
ADDING = {"add", "append", "appendleft", "extend", "insert", "setdefault", "update"}
REMOVING = {
    "clear",
    "difference_update",
    "discard",
    "intersection_update",
    "pop",
    "popitem",
    "popleft",
    "remove",
}
MAKERS = ("Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set")


def begins_empty(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in MAKERS or (
                name == "field" and any(keyword.arg == "default_factory" for keyword in value.keywords)
            )
    return False


def attribute(node: ast.expr) -> str:
    """The name of ``self.name``, also of ``self.name[key]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else ""


class Uses(ast.NodeVisitor):
    """Uses of the attributes of one class."""

    def __init__(self) -> None:
        self.empty: set[str] = set()
        self.added: set[str] = set()
        self.removed: set[str] = set()

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and begins_empty(node.value):
            self.empty.add(node.target.id)  # a field of a dataclass
        self._assign(node.target, node.value)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        name = attribute(target)
        if isinstance(target, ast.Subscript):
            self.added.add(name)
        elif isinstance(target, ast.Tuple):
            for each in target.elts:
                self._assign(each, value)
        elif name in self.empty:
            self.removed.add(name)  # replaced as a whole
        elif begins_empty(value):
            self.empty.add(name)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        shrinks = isinstance(node.op, ast.Sub | ast.BitAnd) and not isinstance(node.target, ast.Subscript)
        (self.removed if shrinks else self.added).add(attribute(node.target))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # Also a method that is handed on: ``task.add_done_callback(self._tasks.discard)``.
        if node.attr in REMOVING:
            self.removed.add(attribute(node.value))
        elif node.attr in ADDING:
            self.added.add(attribute(node.value))
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self.removed.update(attribute(target) for target in node.targets)
        self.generic_visit(node)


def growing(source: str) -> Iterator[str]:
    """``Class.attribute`` of what is only ever added to."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            uses = Uses()
            uses.visit(node)
            names = (uses.empty & uses.added) - uses.removed - {""}
            yield from (f"{node.name}.{name}" for name in sorted(names))


def test_collections_that_only_grow_are_listed_with_a_reason() -> None:
    rows = (line.partition(" ") for line in LISTED.read_text().splitlines() if line and not line.startswith("#"))
    listed = {place: reason for place, _, reason in rows}
    assert [place for place, reason in listed.items() if len(reason) < 15] == []
    found = {
        f"{path.relative_to(PRODUCT)}:{name}"
        for daemon in DAEMONS
        for path in sorted((PRODUCT / daemon).rglob("*.py"))
        for name in growing(path.read_text())
    }
    assert found - listed.keys() == set(), "remove entries, or list it in growing_collections.txt with the reason"
    assert listed.keys() - found == set(), "these shrink or are gone: take them off the list"


def test_collection_that_only_grows_is_found() -> None:
    source = """
class Registry:
    def __init__(self):
        self._seen: set[str] = set()
        self._kept = {}
        self._counts = Counter()
    def look(self, name):
        self._seen.add(name)
        self._kept[name] = 1
        self._counts[name] += 1
    def forget(self, name):
        self._kept.pop(name, None)
"""
    assert list(growing(source)) == ["Registry._counts", "Registry._seen"]
