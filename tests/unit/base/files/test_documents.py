"""YAML, JSON and TOML of others: whatever the text, values or one error."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import has_nul, read_json, read_toml, read_yaml
from pykubelet.base.files.yaml_reader import MAX_DEPTH

_BOMB = b"a0: &b0 [x, x]\n" + b"".join(b"a%d: &b%d [*b%d, *b%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 40))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", None),
        (b"a: [1, 'x', null]", {"a": [1, "x", None]}),
        (b'{"a": 1}', {"a": 1}),
        (b' \n{"a": 1e3, "b": [{}]}\n', {"a": 1000.0, "b": [{}]}),
        (b"{a: 1}", {"a": 1}),
        (b"a: &x 1\nb: *x", {"a": 1, "b": 1}),
    ],
)
def test_read_yaml_good_text_gives_its_values(data: bytes, value: object) -> None:
    assert read_yaml(data) == value


def test_read_yaml_text_of_the_allowed_depth_gives_its_values() -> None:
    assert read_yaml(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert read_yaml(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH) is not None


def test_read_yaml_json_text_does_not_load_the_reader_of_yaml() -> None:
    code = """
import sys
from pykubelet.base.files.documents import read_yaml
print(read_yaml(b'{"a": [1]}'), "yaml" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "{'a': [1]} False"


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"[" * 1_000_000, "levels deep"),
        (b"- " * 1_000_000, "levels deep"),
        (b"{a: " * 300_000, "levels deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "levels deep"),
        (b'{"a":' * 300_000 + b"1" + b"}" * 300_000, "levels deep"),
        (b"a: &a [*a]", "contains itself"),
        (b"a: &a {b: *a}", "contains itself"),
        (_BOMB, "values once its aliases"),
        (b"a: *nowhere", "undefined alias"),
        (b'{"a": "\\ud800"}', "Unicode"),
        (b"a: !!int ''", "not YAML"),
        (b"a: !!timestamp x", "not YAML"),
        (b"a: 0000-00-00", "not YAML"),
        (b"a: !!binary \xc3\xa9", "not YAML"),
        (b"? [a]\n: b", "unhashable"),
        (b"a: " + b"9" * 5000, "digits"),
        (b"\xff", "not YAML"),
        (b"a: 1\n---\nb: 2", "single document"),
    ],
    ids=lambda value: repr(value[:16]),
)
def test_read_yaml_hostile_text_raises_invalid(data: bytes, reported: str) -> None:
    with pytest.raises(Invalid, match=reported):
        read_yaml(data)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"[" * 1_000_000, "deep"),
        (b'{"a":' * 200_000, "deep"),
        (b'{"a": "\\ud800"}', "JSON"),
        (b'"\xff"', "JSON"),
        (b"", "JSON"),
    ],
    ids=lambda value: repr(value[:16]),
)
def test_read_json_hostile_text_raises_invalid(data: bytes, reported: str) -> None:
    with pytest.raises(Invalid, match=reported):
        read_json(data)


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-?!&*|>'\"%@`# \n\tab01~<.", max_size=120).map(str.encode))
def test_read_any_bytes_gives_values_or_invalid(data: bytes) -> None:
    for read in (read_json, read_yaml):
        try:
            read(data)
        except Invalid as error:
            assert str(error)


def test_read_toml_good_text_gives_its_values() -> None:
    assert read_toml(b'a.b.c = "1.2.3.4"\n[d]\n') == {"a": {"b": {"c": "1.2.3.4"}}, "d": {}}


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"[", "not TOML"),
        (b"\xff", "not TOML"),
        (b"a = " + b"9" * 5000, "not TOML"),
        (b"a = " + b"[" * 100_000, "deep"),
        (b"a" + b".a" * 500_000 + b" = 1", "line 1 has more than 256 dots"),
        (b"\n[a" + b".a" * 500_000 + b"]", "line 2 has more than 256 dots"),
        (b"x = {a" + b" . 'a'" * 100_000 + b" = 1}", "line 1 has more than 256 dots"),
    ],
    ids=lambda value: repr(value[:16]),
)
def test_read_toml_hostile_text_raises_invalid(data: bytes, reported: str) -> None:
    with pytest.raises(Invalid, match=reported):
        read_toml(data)


def test_has_nul_finds_it_at_any_depth() -> None:
    assert all(map(has_nul, ("\0", {"a": [{"b": "c\0"}]}, {"\0": 1})))
    assert not any(map(has_nul, ("", None, 1, ["a", {"b": "c"}])))


_FIRST_READ = """
import os, resource, sys
from pykubelet.base.errors import Transient
from pykubelet.base.files.documents import read_yaml

def use_up(event, details):
    if armed and event in ("open", "import") and sys.argv[1] in str(details):
        try:
            while armed:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            armed.clear()

resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held, armed = [], [True]
sys.addaudithook(use_up)
try:
    read_yaml(b"a: 1")
except Transient as error:
    print(error)
assert held
for fd in held:
    os.close(fd)
print(read_yaml(b"a: 1"))
"""


@pytest.mark.parametrize("file", ["yaml/_yaml", "yaml/__pycache__/tokens", "files/__pycache__/yaml_reader"])
def test_first_read_without_descriptors_fails_for_that_time_only(file: str) -> None:
    """The reader is loaded with the first text: what is missing at that moment must not be missing for ever."""
    command = [sys.executable, "-B", "-c", _FIRST_READ, file]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    *failures, values = run.stdout.splitlines() or [run.stderr]
    assert values == "{'a': 1}"
    assert [failure.startswith("the reader of YAML cannot be loaded") for failure in failures] == [True]
