"""Typed objects from any thread."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pykubelet.base.files.decoding import convert, decode_json

_FIRST_USE = """
import sys, threading
from msgspec import Struct
sys.setswitchinterval(1e-6)
from pykubelet.base.files.decoding import convert, decode_json

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


class _Named(msgspec.Struct):
    name: str
    place: Path | None = None


def test_values_and_misfits_are_those_of_msgspec() -> None:
    assert decode_json('{"name": "a"}', _Named) == _Named("a")
    assert decode_json(b"[1]", list[int]) == [1]
    assert convert({"name": "a", "place": "/b"}, _Named, dec_hook=lambda kind, value: kind(value)).place == Path("/b")
    with pytest.raises(msgspec.ValidationError, match="name"):
        decode_json(b"{}", _Named)
    with pytest.raises(msgspec.ValidationError, match="str"):
        convert({"name": 1}, _Named)
