"""Decisions about recorded sandboxes."""

import pytest
from msgspec.structs import replace

from pykubelet.criserver.sandbox.plan.lifecycle import adopted_phase, of_boot
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord

RECORD = SandboxRecord(SandboxID("s1"), "n", "runc", b"", 1)


@pytest.mark.parametrize(
    ("phase", "there", "alive", "expected"),
    [
        (SandboxPhase.READY, True, True, SandboxPhase.READY),
        (SandboxPhase.READY, False, True, SandboxPhase.STOPPED),
        (SandboxPhase.READY, True, False, SandboxPhase.STOPPED),
        (SandboxPhase.STOPPED, True, True, SandboxPhase.STOPPED),
    ],
)
def test_adopted_phase_by_traces(phase: SandboxPhase, there: bool, alive: bool, expected: SandboxPhase) -> None:
    assert (
        adopted_phase(replace(RECORD, phase=phase, boot="b"), boot="b", namespaces_there=there, infra_alive=alive)
        is expected
    )


@pytest.mark.parametrize(
    ("noted", "last", "now", "expected"),
    [
        ("b1", "b1", "b2", SandboxPhase.STOPPED),
        ("b2", "b1", "b2", SandboxPhase.READY),
        ("", "b1", "b2", SandboxPhase.STOPPED),
        ("", "b2", "b2", SandboxPhase.READY),
        ("", "", "b2", SandboxPhase.READY),
    ],
)
def test_sandbox_of_another_boot_is_lost(noted: str, last: str, now: str, expected: SandboxPhase) -> None:
    record = of_boot(replace(RECORD, phase=SandboxPhase.READY, boot=noted), last)
    assert adopted_phase(record, boot=now, namespaces_there=True, infra_alive=True) is expected
