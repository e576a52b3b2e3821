"""Events between components."""

import pytest

from pykubelet.base.concurrency.callbacks import Callbacks


def test_event_without_subscribers_is_ignored() -> None:
    Callbacks[[str]]()("x")


def test_event_reaches_all_subscribers_in_order() -> None:
    event, seen = Callbacks[[str]](), list[tuple[int, str]]()
    event.subscribe(lambda text: seen.append((1, text)))
    event.subscribe(lambda text: seen.append((2, text)))
    event("a")
    assert seen == [(1, "a"), (2, "a")]


def test_late_subscriber_gets_only_later_events() -> None:
    event, seen = Callbacks[[str]](), list[str]()
    event("a")
    event.subscribe(seen.append)
    event("b")
    assert seen == ["b"]


def test_exception_of_a_subscriber_reaches_the_producer() -> None:
    event = Callbacks[[str]]()
    event.subscribe(int)
    with pytest.raises(ValueError):
        event("a")
