"""Everything that decodes to a type goes through base/files/decoding.py: msgspec alone crashes with two threads."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pykubelet"
GUARDED = {SOURCE / "base/files/decoding.py", SOURCE / "models/codec.py"}


def uses(tree: ast.AST, *, in_function: bool = False) -> Iterator[ast.AST]:
    """The places that decode to a type themselves, or make a decoder after the import of their module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.partition(".")[0] == "msgspec":
            if {"convert", "decode", "Decoder"} & {each.name for each in node.names}:
                yield node
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            typed = len(node.args) > 1 or any(each.arg == "type" for each in node.keywords)
            late = name == "msgspec.json.Decoder" and in_function
            if name == "msgspec.convert" or (name == "msgspec.json.decode" and typed) or late:
                yield node
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from uses(node, in_function=inside)


def test_types_are_decoded_to_in_one_place() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{node.lineno}"  # type: ignore[attr-defined]
        for path in sorted(SOURCE.rglob("*.py"))
        if path not in GUARDED and "msgspec" in path.read_text()
        for node in uses(ast.parse(path.read_text()))
    }
    assert not found, "use decode_json or convert of base/files/decoding.py"


def test_rule_notices_each_way() -> None:
    code = """
import msgspec
from msgspec import convert
from msgspec.json import Decoder
module = msgspec.json.Decoder(int)
def each(data):
    msgspec.convert(data, int)
    msgspec.json.decode(data, type=int)
    msgspec.json.decode(data)
    lambda: msgspec.json.Decoder(int)
"""
    assert [node.lineno for node in uses(ast.parse(code))] == [3, 4, 7, 8, 10]  # type: ignore[attr-defined]
