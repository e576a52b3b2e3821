"""Life cycles: checks against the table, and a bounded history."""

from enum import StrEnum

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.base.transition_table import Life, LifeCycle


class Phase(StrEnum):
    """The phases of a door."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"


DOOR = LifeCycle(
    "door",
    (
        (Phase.OPEN, "a push", Phase.CLOSED),
        (Phase.CLOSED, "a pull", Phase.OPEN),
        (Phase.OPEN, "a fire", Phase.GONE),
        (Phase.CLOSED, "a fire", Phase.GONE),
        (Phase.CLOSED, "another push", Phase.CLOSED),
    ),
)


class TickingClock:
    """A clock that advances by one second with each reading."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_phases_that_can_follow_are_those_of_the_table() -> None:
    assert DOOR.following(Phase.OPEN) == {Phase.CLOSED, Phase.GONE}
    assert DOOR.following(Phase.CLOSED) == {Phase.OPEN, Phase.GONE, Phase.CLOSED}
    assert DOOR.following(Phase.GONE) == frozenset()


def test_impossible_transition_changes_nothing_and_tells_the_history() -> None:
    life = Life(DOOR, "d1", phase=Phase.OPEN, monotonic=TickingClock())
    life.enter(Phase.CLOSED)
    life.enter(Phase.GONE)
    with pytest.raises(Permanent) as failed:
        life.enter(Phase.OPEN)
    expected = "door d1 is gone, it cannot become open (history: open 3.0 s ago, closed 2.0 s ago, gone 1.0 s ago)"
    assert str(failed.value) == expected
    assert life.phase is Phase.GONE


def test_check_makes_no_transition() -> None:
    life = Life(DOOR, "d1", phase=Phase.OPEN, monotonic=TickingClock())
    life.check(Phase.CLOSED)
    assert life.phase is Phase.OPEN


def test_history_is_bounded() -> None:
    life = Life(DOOR, "d1", phase=Phase.CLOSED, monotonic=TickingClock())
    for _ in range(1000):
        life.enter(Phase.CLOSED)
    assert life.history().count("closed") == 8
