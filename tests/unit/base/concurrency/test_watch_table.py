"""The table behind lists and watches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.concurrency.watch_table import Change, WatchTable


def table() -> WatchTable[str]:
    return WatchTable(100)


def brief(change: Change[str]) -> tuple[str, str, int, bool]:
    return change.key, change.value, change.version, change.deleted


def test_values_change_with_ascending_versions() -> None:
    made = table()
    assert made.put("a", lambda v: f"a@{v}") == "a@101"
    made.put("b", lambda v: f"b@{v}")
    made.put("a", lambda v: f"a@{v}")
    assert [brief(c) for c in made.changes()] == [("b", "b@102", 102, False), ("a", "a@103", 103, False)]
    assert (made.get("a"), made.get("c"), made.version, len(made), "b" in made) == ("a@103", None, 103, 2, True)
    assert [c.created for c in made.changes()] == [102, 101]


async def test_deletion_is_notified_once_with_the_last_value() -> None:
    made = table()
    made.put("a", str)
    with made.subscribe() as watch:
        assert made.watchers == 1
        made.delete("a")
        made.delete("a")
        assert [brief(c) for c in await watch.take()] == [("a", "101", 102, True)]
        made.put("b", str)
        made.delete("b", lambda v: f"last@{v}")
        assert [brief(c) for c in await watch.take()] == [("b", "last@104", 104, True)]
    assert (made.watchers, made.stalest()) == (0, None)


async def test_forget_does_not_notify() -> None:
    made = table()
    made.put("a", str)
    made.put("b", str)
    with made.subscribe() as watch:
        made.forget("a")
        made.forget("a")
        made.put("c", str)
        assert [c.key for c in await watch.take()] == ["c"]
    stalest = made.stalest()
    assert stalest is not None and stalest.key == "b"


def test_changes_since_a_known_version_are_returned_in_order() -> None:
    made = table()
    made.put("a", str)
    made.put("b", str)
    made.delete("a")
    made.put("a", str)

    def since(version: int) -> list[tuple[str, bool]] | None:
        found = made.since(version)
        return None if found is None else [(c.key, c.deleted) for c in found]

    assert since(100) == [("b", False), ("a", True), ("a", False)]
    assert since(102) == [("a", True), ("a", False)]
    assert since(103) == [("a", False)]
    assert since(104) == []
    assert (since(99), since(105)) == (None, None)


def test_versions_before_forgotten_deletions_are_too_old() -> None:
    made = table()
    for i in range(600):
        made.put(str(i), str)
        made.delete(str(i))
    assert made.since(100) is None
    assert made.since(made.version - 2) is not None
    newest = list(made.since(made.version - 1) or ())
    assert [c.key for c in newest] == ["599"]


def test_remembered_deletions_are_bounded_by_the_size_of_their_values() -> None:
    made: WatchTable[bytes] = WatchTable(100, size=len)
    for i in range(20):
        made.put(str(i), lambda _: bytes(1 << 20))
        made.delete(str(i))
    assert made.since(100) is None
    assert [c.key for c in made.since(made.version - 8) or ()] == ["16", "17", "18", "19"]
    made.put("large", lambda _: bytes(5 << 20))
    made.delete("large")
    assert made.since(made.version - 1) is None
    made.put("small", lambda _: b"")
    made.delete("small")
    assert [c.key for c in made.since(made.version - 1) or ()] == ["small"]


@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40),
    at=st.integers(0, 40),
)
def test_a_list_and_its_watch_give_the_present_state(steps: list[tuple[str, bool]], at: int) -> None:
    made = table()
    listed: dict[str, str] = {}
    version = made.version
    for i, (key, delete) in enumerate(steps):
        if i == at:
            version = made.version
            listed = {c.key: c.value for c in made.changes()}
        if delete:
            made.delete(key)
        else:
            made.put(key, str)
    if at >= len(steps):
        version, listed = made.version, {c.key: c.value for c in made.changes()}
    changes = made.since(version)
    assert changes is not None
    for change in changes:
        if change.deleted:
            listed.pop(change.key, None)
        else:
            listed[change.key] = change.value
    assert listed == {c.key: c.value for c in made.changes()}


@pytest.mark.parametrize("version", [0, -5, 10**12])
def test_versions_of_another_run_are_too_old(version: int) -> None:
    assert table().since(version) is None
