"""Typed objects from any thread."""

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from pykubelet.base.files.decoding import convert, decode_json, shallow

_FIRST_USE = """
import sys, threading
from msgspec import Struct
sys.setswitchinterval(1e-6)
from pykubelet.base.files.decoding import convert, decode_json, shallow

class Leaf(Struct):
    a: int = 0
    b: "list[str]" = []
    c: "dict[str, str] | None" = None

class Tree(Struct):
    leaves: "list[Leaf]" = []
    first: "Leaf | None" = None
    names: "dict[str, Leaf]" = {}

start = threading.Barrier(4)
def use(number):
    start.wait()
    if number % 2:
        convert({"leaves": [{"a": 1}]}, Tree)
    else:
        decode_json(b'{"names": {"x": {"b": ["y"]}}}', Tree)
threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("whole")
"""


def test_threads_may_need_a_type_for_the_first_time_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-2000:]


class _NamedItem(msgspec.Struct):
    name: str
    place: Path | None = None


def test_values_and_misfits_are_those_of_msgspec() -> None:
    assert decode_json('{"name": "a"}', _NamedItem) == _NamedItem("a")
    assert decode_json(b"[1]", list[int]) == [1]
    assert convert({"name": "a", "place": "/b"}, _NamedItem, dec_hook=lambda kind, value: kind(value)).place == Path(
        "/b"
    )
    with pytest.raises(msgspec.ValidationError, match="name"):
        decode_json(b"{}", _NamedItem)
    with pytest.raises(msgspec.ValidationError, match="str"):
        convert({"name": 1}, _NamedItem)


def nested(levels: int, value: bytes = b"1") -> bytes:
    return b'{"a":[{}],"{\\"[":' * levels + value + b',"b":"]"}' * levels


def depth(value: object) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, parts), default=0) if isinstance(value, dict | list) else 0


def test_shallow_leaves_out_what_is_too_deep_and_keeps_the_rest() -> None:
    text = b'[1,%b,{"x":"}"},%b,[],2]' % (nested(20_000), nested(20_000))
    with pytest.raises(RecursionError):
        msgspec.json.decode(text)
    first, deep, between, other, *rest = msgspec.json.decode(shallow(text))
    assert (first, between, rest) == (1, {"x": "}"}, [[], 2])
    assert deep == other and 90 < depth(deep) < 110
    assert deep["b"] == deep['{"[']["b"] == "]"


@pytest.mark.parametrize(
    "text", [nested(90), b"", b'"', b'"[\\', b"}}]", b"[[}}", b'{"a":"\\\\"}', b"[]" * 500, b"\\["]
)
def test_text_that_is_not_deep_stays_as_it_is(text: bytes) -> None:
    assert shallow(text) == text


def test_deep_text_without_an_end_has_none_afterwards() -> None:
    assert shallow(b"[" * 50_000) == b"[" * 100 + b"null"


@pytest.mark.parametrize("text", [b'"' + b"[" * 3_000_000, b"\\" * 3_000_000, b" " * 3_000_000, b"[" * 3_000_000])
def test_time_of_shallow_grows_with_the_text(text: bytes) -> None:
    begun = time.process_time()
    shallow(text)
    assert time.process_time() - begun < 20
