"""A bounded table of what is made at its first use."""

from pykubelet.base.recent_items import RecentItems


def test_value_is_made_once_for_each_key() -> None:
    items = RecentItems[str, list[str]](list, most=2)
    items.use("a").append("x")
    assert (items.use("a"), items.use("b"), items.get("c")) == (["x"], [], None)


def test_value_that_was_used_the_longest_time_ago_is_dropped() -> None:
    items = RecentItems[str, list[str]](list, most=2)
    for key in ("a", "b", "a", "c"):
        items.use(key)
    assert list(items) == ["a", "c"]


def test_value_that_was_removed_is_made_again() -> None:
    items = RecentItems[str, list[str]](list, most=2)
    items.use("a").append("x")
    assert items.pop("a", None) == ["x"]
    assert items.use("a") == []
