"""Whatever the bytes, reading a manifest ends soon and without an exception, and gives only sound objects."""

import copy
import random
import time
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.desired.manifest import Manifest, adopt, parse
from pykubelet.kubelet.desired.manifest.defaults import with_defaults
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_PROBLEMS
from pykubelet.kubelet.types.updates import Source
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.desired.manifest.samples import BASE

SEED = yaml.safe_dump(yaml.safe_load(BASE)).encode()
SEED += b"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n"
TOKENS = [
    b"&a ", b"*a", b"<<: ", b"- ", b": ", b"? ", b"!!str ", b"{", b"}", b"[", b"]", b"|\n", b">", b"'", b'"', b"\n",
    b"\t", b"---\n", b"...\n", b"%YAML 9\n", b"\x00", b"\xff", b"\\ud800", b"0x", b"1e999", b"9" * 50, b"null", b"~",
    b"#", b"\r", b"\xe2\x80\xa8",
]  # fmt: skip


def doubling(levels: int) -> bytes:
    """A list that doubles with each line."""
    text = b"a0: &b0 [x, x]\n"
    return text + b"".join(b"a%d: &b%d [*b%d, *b%d]\n" % (i, i, i - 1, i - 1) for i in range(1, levels))


def check(data: bytes) -> Manifest:
    """Read, and hold the result to what every later stage relies on."""
    manifest = parse(data, "f.yaml")
    assert len(manifest.problems) <= MAX_PROBLEMS
    assert all(str(problem) for problem in manifest.problems)
    for item in manifest.objects:
        assert item.key.name
        if isinstance(item.value, Pod):
            pod = adopt(item.value, item.digest, Source.FILE, "f.yaml", "node")
            assert codec.decode(codec.encode(pod), Pod) == pod
            assert with_defaults(item.value) == item.value
    return manifest


def mutate(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at:at] = rng.choice(TOKENS)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + rng.randint(1, 200)]
            case 3:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 4:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_manifests_raise_no_error(seed: int) -> None:
    rng = random.Random(seed)
    used = 0
    for _ in range(750):
        used += bool(check(mutate(rng, bytearray(SEED))).objects)
    assert used > 50, "the mutations destroy every manifest, so they do not test much"


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    check(data)


@given(st.text(alphabet="{}[]:,-?!&*|>'\"%@`# \n\tab01~<.", max_size=120))
def test_any_yaml_like_text_is_parsed_or_reported(text: str) -> None:
    check(text.encode())


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += paths(child, (*path, key))
    return found


PARSED = yaml.safe_load(BASE)
PATHS = paths(PARSED)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates() | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=4), st.booleans())
def test_any_value_in_any_place_is_parsed_or_reported(
    changes: list[tuple[tuple[str | int, ...], object]], flow: bool
) -> None:
    pod: Any = copy.deepcopy(PARSED)
    for path, value in changes:
        target = pod
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took that place away
    text = yaml.dump(pod, Dumper=yaml.CSafeDumper, default_flow_style=flow, allow_unicode=True)
    check(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "data",
    [
        doubling(60),
        b"kind: Pod\napiVersion: v1\nmetadata:\n managedFields:\n - fieldsV1:\n" + doubling(60).replace(b"a", b"    a"),
        b"[" * 1_000_000,
        b"- " * 1_000_000,
        b"{a: " * 500_000,
        b"a: b\n" * 200_000,
        b"? " * 500_000,
        b"- - - - -\n" * 200_000,
        b"a" * 5_000_000,
        b"'" + b"a\n" * 2_000_000,
        b'"' + b"\\u0041" * 500_000 + b'"',
        b"&a " * 200_000,
        b"!" * 1_000_000,
        b"#\n" * 2_000_000,
        b"---\n" * 200_000,
        b"---\na: 1\n" * 50_000,
        b"apiVersion: v1\nkind: Pod\nspec: {priority: " + b"9" * 1_000_000 + b"}",
        b"apiVersion: v1\nkind: Pod\n" + b"".join(b"f%d: 1\n" % i for i in range(50_000)),
        b'{"a":"\\ud83d\\ude00","b":' + b"[" * 200_000,
        b'{"a":"\\ud83d\\ude00","b":[' + b"1," * 500_000 + b"1]}",
        b'{"a":"\\ud83d\\ude00","b":' + b"9" * 1_000_000 + b"}",
    ],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_hostile_texts_end_soon(data: bytes) -> None:
    start = time.process_time()
    manifest = check(data)
    assert manifest.objects == ()
    # Generous, for a busy machine; what this guards against takes minutes or all memory.
    assert time.process_time() - start < 20
