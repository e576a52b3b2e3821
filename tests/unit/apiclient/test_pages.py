"""Lists of objects that take too much memory together: the largest are left out, and all others are read."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.apiclient import pages as module
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.watch import Listing, read_value
from pykubelet.models.core_v1 import Pod

Json = dict[str, Any]


def pod(name: str, size: int, *, ending: bool = False, namespace: str = "d", **spec: Any) -> Json:
    meta: Json = {"name": name, "namespace": namespace, "uid": f"{name}-1", "resourceVersion": "3"}
    if ending:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": "Pod", "metadata": meta, "spec": {"hostname": "h" * size, **spec}}


def read(*given: list[Json]) -> Listing[Pod]:
    """Read a list of these pages."""
    pages = Pages(Pod)
    for number, items in enumerate(given):
        meta = {"resourceVersion": "9", "continue": "" if number == len(given) - 1 else "more"}
        pages.read(json.dumps({"kind": "PodList", "metadata": meta, "items": items}).encode())
    return pages.listing()


def names(listing: Listing[Pod]) -> list[str]:
    return [each.metadata.name for each in listing.items]


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOTAL", 100_000)
    monkeypatch.setattr(module, "MAX_ENDING", 45_000)


@pytest.mark.parametrize("page", [1, 2, 9])
def test_largest_objects_beyond_the_bound_are_left_out_and_named(page: int) -> None:
    sizes = [10, 90_000, 20_000, 50_000, 10, 60_000, 10, 30]
    given = [pod(f"p{number}", size) for number, size in enumerate(sizes)]
    found = read(*(given[start : start + page] for start in range(0, len(given), page)))
    assert names(found) == ["p0", "p2", "p3", "p4", "p6", "p7"]
    assert len(found.weights) == 6 and sum(found.weights) <= 100_000
    assert [(each.meta.name, each.meta.uid, each.meta.resource_version) for each in found.unread] == [
        ("p1", "p1-1", "3"),
        ("p5", "p5-1", "3"),
    ]
    assert [90_000 < found.unread[0].weight < 95_000, 60_000 < found.unread[1].weight < 65_000] == [True, True]
    assert all("delete it" in each.fault for each in found.unread)


@pytest.mark.parametrize("ending", [False, True])
def test_many_objects_of_a_namespace_keep_out_no_larger_one_of_another(ending: bool) -> None:
    given = [pod(f"p{number}", 9000, ending=ending) for number in range(40)]
    found = read(given[:20], [pod("victim", 15_000, ending=ending, namespace="e")], given[20:])
    assert "victim" in names(found)
    assert len(found.items) >= 5 and sum(found.weights) < 145_000


def test_objects_left_out_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def noted(raw: bytes, target: type[Pod]) -> Pod:
        decoded.append(len(raw))
        return read_value(raw, target)

    monkeypatch.setattr(module, "read_value", noted)
    read([pod("a", 10), pod("b", 95_000), pod("c", 90_000)], [pod("d", 99_000)])
    assert sum(decoded) < 100_000


def test_objects_that_are_being_deleted_are_held_a_few_at_a_time_beyond_the_bound() -> None:
    small = [pod(f"s{number}", 9000) for number in range(8)]
    ending = [pod(f"e{number}", 40_000, ending=True) for number in range(3)]
    found = read(small[:5], ending, small[5:])
    assert names(found) == ["s0", "s1", "s2", "s3", "s4", "e0", "s5", "s6", "s7"]
    assert [(each.meta.name, each.ending) for each in found.unread] == [("e1", True), ("e2", True)]


def test_object_that_is_left_out_has_its_deletion_but_no_large_metadata() -> None:
    first = pod("a", 90_000, ending=True)
    first["metadata"] |= {"deletionGracePeriodSeconds": 7, "labels": {"l": "v"}}
    found = read([first, pod("b", 10)], [pod("c", 85_000, ending=True), pod("d", 80_000)])
    assert names(found) == ["b", "c", "d"]
    meta = found.unread[0].meta
    assert (meta.name, meta.labels, meta.deletion_grace_period_seconds) == ("a", {}, 7)
    assert meta.deletion_timestamp == datetime(2026, 1, 1, tzinfo=UTC)


def test_object_that_cannot_be_decoded_keeps_its_own_fault() -> None:
    found = read([pod("a", 10), pod("b", 95_000, containers=7), pod("c", 10)], [pod("d", 50_000)])
    assert names(found) == ["a", "c", "d"]
    assert [(each.meta.name, each.weight) for each in found.unread] == [("b", 0)]
    assert "containers" in found.unread[0].fault


def test_object_that_is_too_deep_is_read_in_a_list_of_large_ones() -> None:
    deep: Any = None
    for _ in range(600):
        deep = {"f:a": deep}
    value = pod("deep", 10)
    value["metadata"]["managedFields"] = [{"fieldsV1": deep}]
    found = read([value, pod("b", 95_000)], [pod("c", 90_000)])
    assert names(found) == ["deep", "c"]
