"""The memory that objects take, as estimated before they are decoded, and the choice of those that are held."""

import json
import random
import tracemalloc
from typing import Any

import pytest

from pykubelet.apiclient.watch import read_value
from pykubelet.apiclient.weights import Choice, too_large, weight
from pykubelet.models.core_v1 import Pod


def text(spec: dict[str, Any], **meta: Any) -> bytes:
    metadata = {"name": "a", "uid": "1", **meta}
    value = {"kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


SPREAD = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""}


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [SPREAD] * 5000},
        {"imagePullSecrets": [{}] * 20_000},
        {"containers": [{"name": "c", "args": ["ab"] * 20_000}]},
        {"containers": [{"name": "c", "env": [{"name": "ab"}] * 10_000}]},
        {"containers": [{"name": "", "resources": {}}] * 10_000},
        {"volumes": [{"name": "a"}] * 10_000},
        {"hostname": "h" * 1_000_000},
        {"hostname": "h" * 1_000_000 + "\U0001f600"},
        {"hostname": "h" * 1_000_000 + "\u4e00"},
        {"containers": [{"name": "c", "args": ["{,\\" * 20_000] * 20}]},
    ],
    ids=["constraints", "secrets", "args", "env", "containers", "volumes", "text", "emoji", "wide", "braces"],
)
def test_weight_is_at_least_the_memory_of_the_decoded_object(spec: dict[str, Any]) -> None:
    given = text(spec)
    read_value(given, Pod)
    tracemalloc.start()
    try:
        value = read_value(given, Pod)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert value.metadata.name == "a"
    assert 0.9 * taken < weight(given) < 20 * taken + 10_000


@pytest.mark.parametrize("escape", ["\\ud83d\\ude00", "\\u2028", "\\\\\\u2028"])
def test_weight_of_wide_characters_is_that_of_their_text_as_escapes(escape: str) -> None:
    given = text({"hostname": "h" * 100_000 + "#"}).replace(b"#", escape.encode())
    tracemalloc.start()
    try:
        value = read_value(given, Pod)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(value.spec.hostname) < 100_004
    assert 0.9 * taken < weight(given)


def test_weight_is_not_less_for_braces_in_managed_fields() -> None:
    plain = text({"hostname": "h" * 100_000})
    managed = text({"hostname": "h" * 100_000}, managedFields=[{"fieldsV1": {"f:" + "{" * 200: {}}}])
    assert abs(weight(managed) - weight(plain)) < 200


def test_weight_counts_neither_escapes_nor_managed_fields() -> None:
    plain = weight(text({"hostname": "h" * 10_000}))
    assert weight(text({"hostname": "h" * 10_000}).replace(b"h" * 10_000, b"\\u003c" * 10_000)) == plain
    # The same letters as text are no escape.
    assert weight(text({"hostname": "h" * 10_000}).replace(b"h" * 10_000, b"\\\\u" * 10_000)) == plain + 20_000
    managed = text({"hostname": "h" * 10_000}, managedFields=[{"fieldsV1": {f"f:{each}": {} for each in range(1000)}}])
    assert abs(weight(managed) - plain) < 1000


@pytest.mark.parametrize("given", [b"x", b"{}", b'{"metadata":null}', b'{"metadata":{"managedFields":null}}'])
def test_weight_of_any_text_is_a_number(given: bytes) -> None:
    assert 0 < weight(given) < 1000


def test_choice_leaves_the_largest_out_in_any_order_of_arrival() -> None:
    sizes = [5, 90, 40, 40, 3, 41, 1]
    for seed in range(20):
        order = list(range(len(sizes)))
        random.Random(seed).shuffle(order)
        choice, held = Choice(60), set[int]()
        for place in order:
            held.add(place)
            left_out = choice.offer(place, sizes[place], "d")
            held -= set(left_out)
            assert sum(sizes[each] for each in held) <= 60 or len(held) == 1
        assert held == {0, 2, 4, 6}, "of equal ones the later is left out"


def test_choice_leaves_out_objects_of_the_namespace_that_takes_most() -> None:
    choice, held = Choice(100), set[int]()
    for place, (size, namespace) in enumerate([(30, "a"), *[(9, "many")] * 30, (20, "b"), *[(9, "many")] * 30]):
        held.add(place)
        held -= set(choice.offer(place, size, namespace))
    assert held == {0, 1, 2, 3, 4, 5, 31}


def test_choice_holds_the_smallest_although_it_is_too_large() -> None:
    choice = Choice(10)
    assert choice.offer(0, 30, "d") == []
    assert choice.offer(1, 20, "d") == [0]
    assert choice.offer(2, 20, "d") == [2]


def test_too_large_names_size_and_remedy() -> None:
    assert too_large(44 << 20).startswith(
        "it would take about 44 MiB of memory, beyond the 256 MiB of all objects: delete"
    )


def test_weight_of_many_backslashes_takes_little_memory() -> None:
    given = text({"hostname": "\\" * 500_000 + "u"})
    tracemalloc.start()
    try:
        weight(given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(given)
