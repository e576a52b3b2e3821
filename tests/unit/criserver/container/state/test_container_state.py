"""The life of a container runs from its table; an impossible transition tells the history."""

import itertools

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.criserver.container import Container
from pykubelet.criserver.container.plan.lifecycle import LIFE_CYCLE
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID

RECORD = ContainerRecord(ContainerID("c1"), "app_0", SandboxID("s1"), b"", 1, "i", "r", "", "/cg", "SIGTERM")


class ManualClock:
    """A monotonic clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("pair", list(itertools.product(ContainerPhase, ContainerPhase)))
def test_only_transitions_of_the_table_are_possible(pair: tuple[ContainerPhase, ContainerPhase]) -> None:
    here, there = pair
    container = Container(replace(RECORD, phase=here), monotonic=ManualClock())
    if there in LIFE_CYCLE.following(here):
        moved = container.moved(there, exit_code=4)
        assert (moved.phase, moved.exit_code) == (there, 4)
        assert container.record.phase is here, "only the record that is stored counts"
        container.record = moved
        assert container.record is moved
    else:
        with pytest.raises(Permanent, match="cannot become"):
            container.moved(there)


def test_record_in_an_impossible_phase_is_rejected() -> None:
    container = Container(replace(RECORD, phase=ContainerPhase.EXITED), monotonic=ManualClock())
    with pytest.raises(Permanent, match="container c1 is exited, it cannot become running"):
        container.record = replace(RECORD, phase=ContainerPhase.RUNNING)
    assert container.record.phase is ContainerPhase.EXITED


def test_impossible_transition_tells_the_history_with_monotonic_ages() -> None:
    clock = ManualClock()
    container = Container(replace(RECORD, phase=ContainerPhase.CREATED), monotonic=clock)
    for phase in (ContainerPhase.RUNNING, ContainerPhase.EXITED):
        clock.now += 1.25
        container.record = container.moved(phase)
    clock.now += 0.5
    with pytest.raises(Permanent, match=r"\(history: created 3\.0 s ago, running 1\.8 s ago, exited 0\.5 s ago\)$"):
        container.moved(ContainerPhase.RUNNING)
