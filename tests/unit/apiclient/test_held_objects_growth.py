"""Objects of one tenant that grow after they are held, list after list: what is kept of them stays bounded."""

import json
from typing import Any

import pytest

from pykubelet.apiclient import held_objects, pages
from pykubelet.apiclient.held_objects import HeldObjects
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.watch import UnreadObject, WatchEvent, WatchType, read_event
from pykubelet.apiclient.weights import weight as weight_of
from pykubelet.models.core_v1 import Pod
from pykubelet.models.meta_v1 import ObjectMeta

Json = dict[str, Any]
TOTAL, ENDING, OF_NAMESPACE = 100_000, 30_000, 30_000


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (held_objects, pages):
        monkeypatch.setattr(module, "MAX_TOTAL", TOTAL)
        monkeypatch.setattr(module, "MAX_ENDING", ENDING)
    monkeypatch.setattr(held_objects, "MAX_OF_NAMESPACE", OF_NAMESPACE)


def pod(name: str, size: int, *, ending: bool = False, namespace: str = "many") -> Json:
    version = f"{int(ending)}{size:06}"
    meta: Json = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": version}
    if ending:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": "Pod", "metadata": meta, "spec": {"hostname": "h" * size}}


def compact(value: Json) -> bytes:
    """Return the JSON text as the API server writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def weighing(namespace: str, name: str, size: int, *, ending: bool = False) -> Json:
    """Return a pod of this weight."""
    given = {**pod(name, size, namespace=namespace, ending=ending), "apiVersion": "v1"}
    return given | {"spec": {"hostname": "h" * (2 * size - weight_of(compact(given)))}}


def watch(held: HeldObjects[Pod], given: Json) -> bool:
    """Take over the event of this pod; return whether it is held in this version."""
    held.put(read_event(compact({"type": "MODIFIED", "object": given}), Pod))
    return (given["metadata"]["namespace"], given["metadata"]["name"]) not in held.unread


def relist(held: HeldObjects[Pod], *given: Json) -> list[UnreadObject]:
    """Take over a list of these pods; return those that are newly left out."""
    read = Pages(Pod)
    answer = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": given}
    read.read(compact(answer))
    return held.replace(read.listing())


def kept(held: HeldObjects[Pod]) -> int:
    """Return the characters of the host names that are held."""
    return sum(len(each.spec.hostname) for each in held.items.values())


def test_small_objects_that_grow_after_they_are_held_do_not_add_up() -> None:
    held, known = HeldObjects[Pod](), list[str]()
    for turn in range(8):
        new = [f"{turn}-{number}" for number in range(20)]
        relist(held, *(pod(name, 3500) for name in new), *(pod(name, 6000) for name in known))
        known += new
    assert kept(held) <= TOTAL + ENDING + OF_NAMESPACE


def test_objects_that_grow_and_are_being_deleted_without_end_do_not_add_up() -> None:
    held, known = HeldObjects[Pod](), list[str]()
    for turn in range(8):
        new = [f"{turn}-{number}" for number in range(8)]
        relist(held, *(pod(name, 10_000) for name in new), *(pod(name, 40_000, ending=True) for name in known))
        known += new
    assert kept(held) <= TOTAL + ENDING + OF_NAMESPACE


def test_last_versions_of_one_namespace_keep_out_no_object_of_another() -> None:
    held, first = HeldObjects[Pod](), [f"a{number}" for number in range(20)]
    relist(held, *(pod(name, 3500) for name in first))
    new = [pod(f"b{number}", 3500) for number in range(15)]
    relist(held, pod("victim", 9000, namespace="few"), *new, *(pod(name, 90_000) for name in first))
    assert ("few", "victim") in held.items


def test_full_memory_of_one_namespace_keeps_out_no_new_object_of_another() -> None:
    held = HeldObjects[Pod]()
    relist(held, *(pod(f"a{number}", 3500) for number in range(24)))
    meta = ObjectMeta(namespace="few", name="victim", uid="victim")
    held.put(WatchEvent(WatchType.ADDED, meta, Pod(metadata=meta), weight=9000))
    assert ("few", "victim") in held.items or held.may_hold_more(), "a list would hold it"


def test_small_objects_of_many_namespaces_do_not_add_up() -> None:
    held = HeldObjects[Pod]()
    relist(held, *(pod(f"a{number}", 3500) for number in range(20)))
    for number in range(600):
        value = Pod(metadata=ObjectMeta(namespace=f"n{number % 100}", name=f"{number}", uid=f"{number}"))
        held.put(WatchEvent(WatchType.ADDED, value.metadata, value, weight=5500))
    assert len(held.items) * 5500 <= 2 * TOTAL


def test_namespaces_without_objects_are_forgotten() -> None:
    held = HeldObjects[Pod]()
    for number in range(50):
        meta = ObjectMeta(namespace=f"job{number}", name="a", uid=f"{number}")
        held.put(WatchEvent(WatchType.ADDED, meta, Pod(metadata=meta), weight=1))
        held.remove((f"job{number}", "a"))
    assert not held._totals


def test_objects_of_many_namespaces_that_grow_do_not_add_up() -> None:
    held, known = HeldObjects[Pod](), list[tuple[str, str]]()
    for turn in range(8):
        new = [(f"{turn}-{number}", f"{number}-{each}") for number in range(4) for each in range(5)]
        read = [pod(name, 4500, namespace=namespace) for namespace, name in new]
        relist(held, *read, *(pod(name, 40_000, namespace=namespace) for namespace, name in known))
        known += new
    assert kept(held) <= 2 * TOTAL


def test_objects_of_many_namespaces_that_grew_keep_out_no_small_namespace() -> None:
    held, known = HeldObjects[Pod](), list[tuple[str, str]]()
    for turn in range(8):
        new = [(f"{turn}-{number}", f"{number}-{each}") for number in range(4) for each in range(5)]
        read = [pod(name, 4500, namespace=namespace) for namespace, name in new]
        victim = pod(f"victim{turn}", 500, namespace="few")
        relist(held, victim, *read, *(pod(name, 40_000, namespace=namespace) for namespace, name in known))
        assert ("few", f"victim{turn}") in held.items
        known += new


def test_many_namespaces_that_fill_the_memory_keep_out_no_new_object_of_a_small_one() -> None:
    held = HeldObjects[Pod]()

    def put(namespace: str, name: str, weight: int) -> bool:
        meta = ObjectMeta(namespace=namespace, name=name, uid=f"{namespace}-{name}")
        return held.put(WatchEvent(WatchType.ADDED, meta, Pod(metadata=meta), weight=weight)) is None

    assert put("few", "first", 400)
    for number in range(30):
        for weight in (5500, 2000, 700, 250, 100, 50):
            count = 0
            while put(f"n{number}", f"{weight}-{count}", weight):
                count += 1
    assert put("few", "second", 150)
    assert held._total <= 2.5 * TOTAL


def test_change_that_takes_no_more_memory_is_held_whatever_others_take() -> None:
    held = HeldObjects[Pod]()

    def put(namespace: str, weight: int, version: str) -> bool:
        meta = ObjectMeta(namespace=namespace, name="a", uid=namespace, resource_version=version)
        return held.put(WatchEvent(WatchType.MODIFIED, meta, Pod(metadata=meta), weight=weight)) is None

    assert put("first", 80_000, "1") and put("second", 30_000, "2"), "together beyond the maximum"
    assert put("first", 80_000, "3") and put("first", 79_000, "4")
    assert held.items["first", "a"].metadata.resource_version == "4" and not held.unread


def test_change_of_a_listed_object_that_takes_no_more_memory_is_held_whatever_others_take() -> None:
    """Only the events of a watch tell the kind of each object, as with the API server."""
    held = HeldObjects[Pod]()

    one, two = weighing("many", "a", 60_000), weighing("many", "b", 30_000)
    relist(held, *({"metadata": each["metadata"], "spec": each["spec"]} for each in (one, two)))
    assert watch(held, weighing("few", "c", 20_000)), "together beyond the maximum"
    one["metadata"]["resourceVersion"] = "9999999"
    assert watch(held, one) and held.items["many", "a"].metadata.resource_version == "9999999"


def test_list_is_due_when_what_others_left_out_has_room_again() -> None:
    held = HeldObjects[Pod]()

    def put(namespace: str, name: str, weight: int) -> bool:
        meta = ObjectMeta(namespace=namespace, name=name, uid=f"{namespace}-{name}")
        return held.put(WatchEvent(WatchType.ADDED, meta, Pod(metadata=meta), weight=weight)) is None

    assert all(put("many", f"{number}", 10_000) for number in range(10))
    assert put("second", "a", 24_000) and put("third", "a", 18_000)
    assert not put("few", "a", 15_000) and not held.may_hold_more()
    held.remove(("many", "0"))
    assert held.may_hold_more(), "together beyond the maximum, but the object would be held if it came now"


def test_no_list_is_due_that_would_leave_out_the_same_objects() -> None:
    held = HeldObjects[Pod]()
    pods = [pod(f"{number}", 4000, namespace=f"n{each}") for number in range(6) for each in range(5)]
    relist(held, pod("a", 0, namespace="small"), *pods)
    assert held.unread and ("small", "a") in held.items
    held.remove(("small", "a"))
    assert not held.may_hold_more(), "all namespaces take as much, and together more than the maximum"


def _put(held: HeldObjects[Pod], name: str, weight: int) -> bool:
    meta = ObjectMeta(namespace="many", name=name, uid=f"many-{name}")
    return held.put(WatchEvent(WatchType.MODIFIED, meta, Pod(metadata=meta), weight=weight)) is None


def test_list_is_due_when_a_held_object_takes_less() -> None:
    held = HeldObjects[Pod]()
    assert _put(held, "a", 60_000) and not _put(held, "b", 60_000)
    assert not held.may_hold_more()
    assert _put(held, "a", 10_000)
    assert held.may_hold_more(), "the other one fits now"


def test_list_is_due_when_a_later_version_fits_in_place_of_the_held_one() -> None:
    held = HeldObjects[Pod]()
    assert _put(held, "a", 26_000) and _put(held, "b", 64_000) and not _put(held, "b", 80_000)
    held.remove(("many", "a"))
    assert held.may_hold_more(), "the agent would follow an outdated object"


def test_list_is_due_when_an_object_is_gone_that_was_left_out_like_another() -> None:
    held = HeldObjects[Pod]()
    relist(held, pod("a", 74_000))
    relist(held, pod("a", 80_000), pod("b", 52_000))
    assert held.unread.keys() == {("many", "a"), ("many", "b")} and not held.may_hold_more()
    held.remove(("many", "b"))
    assert held.may_hold_more()
    relist(held, pod("a", 80_000))
    assert not held.unread


def test_no_list_is_due_at_once_after_one_that_held_no_object_that_is_being_deleted() -> None:
    held, given = HeldObjects[Pod](), (pod("a", 80_000), pod("ending", 61_000, ending=True))
    relist(held, given[0])
    relist(held, *given)
    assert ("many", "ending") in held.unread and ("many", "ending") not in held.items
    assert not held.may_hold_more(), "it would leave out the same objects"
    held.remove(("many", "a"))
    assert held.may_hold_more()


def test_list_that_is_due_for_an_object_holds_it() -> None:
    held, many = HeldObjects[Pod](), [weighing("many", f"{number}", 10_000) for number in range(10)]
    others = [weighing("second", "a", 24_000), weighing("third", "a", 18_000), weighing("few", "a", 15_000)]
    relist(held, *many)
    assert [watch(held, each) for each in others] == [True, True, False]
    held.remove(("many", "0"))
    assert held.may_hold_more()
    relist(held, *many[1:], *others)
    assert ("few", "a") in held.items


def test_list_is_due_when_a_later_version_has_the_room_of_its_namespace() -> None:
    held, many = HeldObjects[Pod](), [weighing("many", f"{number}", 10_000) for number in range(10)]
    other, small, large = weighing("second", "a", 24_000), weighing("few", "a", 2000), weighing("few", "a", 20_000)
    relist(held, *many)
    assert [watch(held, each) for each in (other, small, large)] == [True, True, False] and not held.may_hold_more()
    held.remove(("many", "0"))
    assert held.may_hold_more(), "the agent would follow an outdated object"
    relist(held, *many[1:], other, large)
    assert ("few", "a") not in held.unread


def test_object_that_a_list_has_in_the_held_version_is_not_left_out() -> None:
    held = HeldObjects[Pod]()
    given = [weighing("many", "a", 60_000), weighing("many", "b", 30_000), weighing("few", "c", 20_000)]
    assert all(watch(held, each) for each in given), "together beyond the maximum"
    assert relist(held, *given) == []
    assert not held.unread and len(held.items) == 3


def test_objects_that_are_being_deleted_take_no_room_of_others() -> None:
    """Their end may be delayed for ever."""
    held, many = HeldObjects[Pod](), [weighing("many", f"{number}", 10_000) for number in range(7)]
    ending, first, second = (
        weighing("many", "ending", 30_000, ending=True),
        weighing("few", "a", 20_000),
        weighing("few", "b", 10_000),
    )
    relist(held, *many, ending, first)
    assert len(held.items) == 9
    assert watch(held, second), "a list would hold it"
    relist(held, *many, ending, first, second)
    assert len(held.items) == 10 and not held.unread
    assert not watch(held, weighing("few", "c", 10_000))
    held.remove(("many", "ending"))
    assert not watch(held, weighing("few", "c", 10_000)), "the room of those that are being deleted is no longer taken"


def test_list_is_due_when_an_object_that_is_held_is_being_deleted() -> None:
    held = HeldObjects[Pod]()
    relist(held, weighing("many", "a", 60_000), weighing("many", "b", 40_000))
    assert not watch(held, weighing("many", "c", 20_000))
    assert not held.may_hold_more()
    assert watch(held, weighing("many", "b", 40_000, ending=True))
    assert held.may_hold_more(), "b takes the room of those that are being deleted, and c fits"
