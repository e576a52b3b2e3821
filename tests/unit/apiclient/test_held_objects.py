"""The objects that a reflector holds: what is too large for it keeps its last version, and is not taken for deleted."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from pykubelet.apiclient import held_objects as module
from pykubelet.apiclient.held_objects import HeldObjects
from pykubelet.apiclient.watch import Listing, UnreadObject, WatchEvent, WatchType
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.models.meta_v1 import ObjectMeta

GONE = datetime(2026, 1, 1, tzinfo=UTC)


def config_map(name: str, value: str = "1", *, uid: str = "", ending: bool = False) -> ConfigMap:
    meta = ObjectMeta(name=name, uid=uid or f"{name}-1", deletion_timestamp=GONE if ending else None)
    return ConfigMap(metadata=meta, data={"v": value})


def event(value: ConfigMap, weight: int = 1) -> WatchEvent[ConfigMap]:
    return WatchEvent(WatchType.MODIFIED, value.metadata, value, weight=weight)


def listing(*items: tuple[ConfigMap, int], unread: tuple[UnreadObject, ...] = ()) -> Listing[ConfigMap]:
    return Listing(tuple(value for value, _ in items), "1", unread, tuple(weight for _, weight in items))


def left_out(name: str, weight: int, *, ending: bool = False) -> UnreadObject:
    return UnreadObject(config_map(name).metadata, "too large", weight, ending)


def values(held: HeldObjects[ConfigMap]) -> dict[str, str]:
    return {name: each.data["v"] for (_, name), each in held.items.items()}


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOTAL", 100)
    monkeypatch.setattr(module, "MAX_ENDING", 30)
    monkeypatch.setattr(module, "MAX_OF_NAMESPACE", 100)


@pytest.fixture
def held() -> HeldObjects[ConfigMap]:
    """Two objects of 50 and 40 bytes."""
    made = HeldObjects[ConfigMap]()
    assert made.replace(listing((config_map("a"), 50), (config_map("b"), 40))) == []
    return made


def test_changes_beyond_the_bound_keep_the_last_version_until_they_fit(held: HeldObjects[ConfigMap]) -> None:
    larger = held.put(event(config_map("b", "2"), 60))
    assert larger is not None and larger.meta.name == "b" and larger.weight == 60 and "delete it" in larger.fault
    assert held.put(event(config_map("b", "3"), 61)) is None, "it was reported"
    assert held.put(event(config_map("new"), 11)) is not None
    assert values(held) == {"a": "1", "b": "1"} and set(held.unread) == {("", "b"), ("", "new")}
    assert held.put(event(config_map("b", "4"), 45)) is None
    assert held.put(event(config_map("small"), 5)) is None, "no large object keeps a small one out"
    held.remove(("", "a"))
    assert held.put(event(config_map("new"), 40)) is None
    assert values(held) == {"b": "4", "small": "1", "new": "1"} and not held.unread


def test_objects_beyond_the_bound_are_those_of_namespaces_with_few() -> None:
    def in_namespace(namespace: str, name: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(namespace=namespace, name=name, uid=f"{namespace}-{name}"))

    held = HeldObjects[ConfigMap]()
    found = [in_namespace("many", f"{number}") for number in range(100)]
    left_out_of_many = [held.put(event(each, 5)) for each in found]
    assert left_out_of_many.count(None) == 20, "one namespace can fill the memory, but no more"
    for number in range(4):
        assert held.put(event(in_namespace("few", f"{number}"), 5)) is None
    assert held.put(event(in_namespace("few", "more"), 5)) is not None
    assert held.put(event(in_namespace("another", "0"), 5)) is None, "a quarter of the remaining memory is for each"
    held.remove(("few", "3"))
    assert held.put(event(in_namespace("few", "more"), 5)) is None
    held.replace(listing((found[0], 5)))
    assert held.put(event(found[1], 90)) is None, "a list counts again"
    assert len(held.items) == 2


def test_objects_that_are_being_deleted_have_room_of_their_own(held: HeldObjects[ConfigMap]) -> None:
    assert held.put(event(config_map("b", "2", ending=True), 70)) is None
    rest = held.put(event(config_map("c", ending=True), 15))
    assert rest is not None and rest.ending
    assert values(held) == {"a": "1", "b": "2"}


def test_list_without_an_object_that_is_held_keeps_it_if_it_exists(held: HeldObjects[ConfigMap]) -> None:
    assert [each.meta.name for each in held.replace(listing(unread=(left_out("a", 70), left_out("c", 90))))] == [
        "a",
        "c",
    ]
    assert values(held) == {"a": "1"}
    assert held.replace(listing(unread=(left_out("a", 70),))) == [], "it was reported"
    assert values(held) == {"a": "1"}
    held.replace(listing())
    assert values(held) == {} and not held.unread


def test_unread_object_does_not_keep_another_one_of_its_name(held: HeldObjects[ConfigMap]) -> None:
    other = config_map("a", uid="a-2").metadata
    held.replace(listing((config_map("b"), 40), unread=(UnreadObject(other, "not valid"),)))
    assert values(held) == {"b": "1"}
    again = config_map("b", uid="b-2").metadata
    assert held.put(WatchEvent(WatchType.ADDED, again, None, "not valid")) is not None
    assert values(held) == {}


def test_list_is_due_when_an_object_that_was_left_out_fits(held: HeldObjects[ConfigMap]) -> None:
    assert not held.may_hold_more()
    held.put(event(config_map("c"), 60))
    assert not held.may_hold_more()
    held.remove(("", "b"))
    assert not held.may_hold_more(), "it is still too large"
    held.put(event(config_map("d"), 51))
    held.put(event(config_map("a", "2"), 49))
    assert held.may_hold_more()
    held.replace(listing((config_map("a"), 49), unread=(left_out("c", 60), left_out("d", 51))))
    assert not held.may_hold_more(), "a list has left it out again, and nothing was removed since"


def test_list_is_due_when_those_being_deleted_are_gone(held: HeldObjects[ConfigMap]) -> None:
    first = (config_map("e", ending=True), 30)
    held.replace(listing((config_map("a"), 99), first, unread=(left_out("f", 90, ending=True),)))
    assert not held.may_hold_more()
    held.remove(("", "e"))
    assert held.may_hold_more()


def test_object_that_is_left_out_is_deleted_in_its_last_version(held: HeldObjects[ConfigMap]) -> None:
    meta = replace(config_map("a", ending=True).metadata, deletion_grace_period_seconds=7)
    assert held.put(event(ConfigMap(metadata=meta, data={"v": "2"}), 200)) is not None
    assert (
        held.put(WatchEvent(WatchType.MODIFIED, config_map("b", ending=True).metadata, None, "not valid")) is not None
    )
    assert values(held) == {"a": "1", "b": "1"}
    assert [each.metadata.deletion_timestamp for each in held.items.values()] == [GONE, GONE]
    assert held.items["", "a"].metadata.deletion_grace_period_seconds == 7
    assert not held.may_hold_more(), "both are known to be deleted"
    held.put(event(config_map("c", ending=True), 90))
    assert held.may_hold_more(), "no list has been asked for the one that is not held"


def test_list_notes_deletions_in_the_last_versions_of_what_it_leaves_out(held: HeldObjects[ConfigMap]) -> None:
    gone = UnreadObject(config_map("a", ending=True).metadata, "too large", 90, ending=True)
    held.replace(listing((config_map("b"), 40), unread=(gone,)))
    assert values(held) == {"a": "1", "b": "1"}
    assert held.items["", "a"].metadata.deletion_timestamp == GONE
    assert held.items["", "b"].metadata.deletion_timestamp is None


def test_lists_leave_out_what_does_not_fit_with_the_last_versions(held: HeldObjects[ConfigMap]) -> None:
    for name in "cdefghij":
        held.put(event(config_map(name), 5))
    for round_number in range(5):
        grown = [(config_map(name, "2"), 11) for name in "cdefghij"]
        new = (config_map(f"new{round_number}"), 9)
        reported = held.replace(listing(*grown, new, unread=(left_out("a", 200), left_out("b", 200))))
        assert {name: value for name, value in values(held).items() if name in "ab"} == {"a": "1", "b": "1"}
        assert values(held)["c"] == "1", "its last version is kept, too"
        assert set(held.unread) == {("", name) for name in (*"abcdefghij", f"new{round_number}")}
        assert ("", f"new{round_number}") in {(each.meta.namespace, each.meta.name) for each in reported}
    assert held.put(event(config_map("k"), 6)) is not None, "no list has added to what is held"


def test_object_that_is_left_out_leaves_no_large_metadata() -> None:
    held = HeldObjects[ConfigMap]()
    meta = ObjectMeta(name="a", uid="a-1", labels={"l": "v"}, annotations={"a": "v"})
    unread = held.put(event(ConfigMap(metadata=meta), 200))
    assert unread is not None and unread.meta == ObjectMeta(name="a", uid="a-1")
