"""The time at which events are sent to the API server, and their order."""

import pytest

from pykubelet.kubelet.actuate.images.plan.pull_policy import present_message, pulled_message
from pykubelet.kubelet.report.events.plan.send_order import SendOrder, is_urgent
from pykubelet.models.core_v1 import Event


def order(*events: tuple[float, str, str], limit: int = 100) -> SendOrder[str]:
    """An order with events of (time, object, key); a key in capitals is urgent."""
    made: SendOrder[str] = SendOrder(0.5, limit)
    for now, about, key in events:
        made.add(key, f"{key}!", about=about, urgent=key.isupper(), now=now)
    return made


def sent(made: SendOrder[str], now: float) -> list[str]:
    """Remove the events that are sent at this time; return them in their order."""
    keys = []
    while (item := made.first(now)) is not None:
        keys.append(item.removesuffix("!"))
        made.remove(keys[-1])
    return keys


def test_events_of_a_start_are_sent_together_half_a_second_after_the_first() -> None:
    made = order((10.0, "p", "a"), (10.2, "p", "b"), (10.4, "q", "c"))
    assert made.seconds(10.4) == pytest.approx(0.1)
    assert sent(made, 10.49) == []
    made.add("d", "d!", about="p", urgent=False, now=10.6)
    assert sent(made, 10.6) == ["a", "b", "c"]
    assert made.seconds(10.7) == pytest.approx(0.4)
    assert sent(made, 11.1) == ["d"]
    assert made.seconds(11.1) is None


def test_urgent_event_takes_along_what_waits_about_its_object() -> None:
    made = order((10.0, "q", "x"), (10.0, "p", "a"), (10.1, "p", "F"), (10.1, "p", "b"))
    assert made.seconds(10.1) == 0.0
    assert sent(made, 10.1) == ["a", "F"]
    assert sent(made, 10.5) == ["x", "b"]


def test_newest_state_keeps_its_place() -> None:
    made = order((10.0, "p", "a"), (10.1, "p", "b"))
    made.add("a", "a again!", about="p", urgent=False, now=10.2)
    assert list(made) == ["a again!", "b!"]
    made.add("F", "F!", about="q", urgent=True, now=10.2)
    made.add("F", "F again!", about="q", urgent=True, now=10.3)
    assert list(made) == ["F again!", "a again!", "b!"]
    made.remove("F")
    made.remove("a")
    made.remove("never added")
    assert sent(made, 10.5) == ["b"]


def test_beyond_the_limit_the_oldest_is_dropped() -> None:
    made = order((10.0, "p", "a"), (10.6, "q", "F"), (10.7, "r", "G"), limit=2)
    assert list(made) == ["F!", "G!"]
    made.add("b", "b!", about="q", urgent=False, now=11.0)
    assert list(made) == ["G!", "b!"]
    made.add("H", "H!", about="q", urgent=True, now=11.1)
    assert list(made) == ["b!", "H!"]
    made.add("b", "b again!", about="q", urgent=False, now=11.2)
    assert list(made) == ["b again!", "H!"]


def test_warnings_and_ends_of_pulls_are_urgent() -> None:
    def urgent(type_: str, reason: str, message: str) -> bool:
        return is_urgent(Event(type=type_, reason=reason, message=message))

    assert urgent("Warning", "Unhealthy", "Readiness probe failed")
    assert urgent("Normal", "Pulled", pulled_message("web", 1.0, 2.0, 3))
    assert not urgent("Normal", "Pulled", present_message("web"))
    assert not urgent("Normal", "Created", pulled_message("web", 1.0, 2.0, 3))
    assert not urgent("Normal", "Started", "Container started")
