"""The life of a sandbox runs from its table."""

import itertools
import time

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.sandbox.plan.lifecycle import LIFE_CYCLE
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord

RECORD = SandboxRecord(SandboxID("s1"), "n", "runc", b"", 1)


@pytest.mark.parametrize("pair", list(itertools.product(SandboxPhase, SandboxPhase)))
def test_only_transitions_of_the_table_are_possible(pair: tuple[SandboxPhase, SandboxPhase]) -> None:
    here, there = pair
    sandbox = Sandbox(replace(RECORD, phase=here), monotonic=time.monotonic)
    if there in LIFE_CYCLE.following(here):
        assert sandbox.moved(there).phase is there
    else:
        with pytest.raises(Permanent, match=rf"sandbox s1 is {here}, it cannot become {there} \(history: {here} "):
            sandbox.moved(there)


@pytest.mark.parametrize("phase", [SandboxPhase.READY, SandboxPhase.REMOVING])
def test_record_in_an_impossible_phase_is_rejected(phase: SandboxPhase) -> None:
    sandbox = Sandbox(replace(RECORD, phase=phase), monotonic=time.monotonic)
    with pytest.raises(Permanent, match="cannot become making"):
        sandbox.record = RECORD
    assert sandbox.record.phase is phase
