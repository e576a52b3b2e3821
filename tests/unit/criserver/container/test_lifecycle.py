"""The container's transitions, and the decisions of recovery."""

import pytest
from msgspec.structs import replace

from pykubelet.criserver.container.plan.lifecycle import (
    LIFE_CYCLE,
    Recovery,
    Traces,
    of_boot,
    oom_killed,
    reason,
    recover,
)
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, ProcessRef, SandboxID

RECORD = ContainerRecord(ContainerID("c1"), "app_0", SandboxID("s1"), b"", 1, "i", "r", "", "/cg", "SIGTERM")
NOTHING = Traces(alive=False, monitored=False, exit_noted=False, start_begun=False, program_runs=False, bundle=True)


def test_removing_is_reachable_from_every_phase() -> None:
    for phase in ContainerPhase:
        reached, todo = {phase}, [phase]
        while todo:
            for following in LIFE_CYCLE.following(todo.pop()) - reached:
                reached.add(following)
                todo.append(following)
        assert ContainerPhase.REMOVING in reached


@pytest.mark.parametrize(
    ("phase", "traces", "expected"),
    [
        (ContainerPhase.MAKING, {}, Recovery.REMOVE),
        (ContainerPhase.REMOVING, {}, Recovery.REMOVE),
        (ContainerPhase.EXITED, {"bundle": False}, Recovery.KEEP),
        (ContainerPhase.RUNNING, {"alive": True, "monitored": True}, Recovery.ADOPT),
        (ContainerPhase.RUNNING, {"alive": True}, Recovery.ADOPT),
        # It has ended, and its monitor is about to note how.
        (ContainerPhase.RUNNING, {"monitored": True}, Recovery.ADOPT),
        (ContainerPhase.RUNNING, {"exit_noted": True}, Recovery.FINISH),
        (ContainerPhase.RUNNING, {"bundle": False}, Recovery.LOST),
        (ContainerPhase.CREATED, {}, Recovery.KEEP),
        (ContainerPhase.CREATED, {"bundle": False}, Recovery.LOST),
        (ContainerPhase.CREATED, {"start_begun": True}, Recovery.UNSTART),
        (ContainerPhase.CREATED, {"start_begun": True, "monitored": True}, Recovery.UNSTART),
        (ContainerPhase.CREATED, {"start_begun": True, "monitored": True, "program_runs": True}, Recovery.ADOPT),
        (ContainerPhase.CREATED, {"start_begun": True, "exit_noted": True, "program_runs": True}, Recovery.FINISH),
        # It died while it waited for its start: nothing of the program has run.
        (ContainerPhase.CREATED, {"start_begun": True, "exit_noted": True}, Recovery.UNSTART),
        (ContainerPhase.CREATED, {"start_begun": True, "program_runs": True}, Recovery.UNSTART),
    ],
)
def test_recovery_for_each_phase_and_traces(phase: ContainerPhase, traces: dict[str, bool], expected: Recovery) -> None:
    given = Traces(**{**{name: getattr(NOTHING, name) for name in Traces.__struct_fields__}, **traces})
    assert recover(replace(RECORD, phase=phase), given) is expected


@pytest.mark.parametrize(
    ("code", "facts", "expected"),
    [
        (137, {}, False),
        (137, {"noted": True}, True),
        (1, {"noted": True}, True),
        (1, {"kills": 1}, True),
        # Its cgroup has gone with it, and the pod's count has grown since it began.
        (137, {"pod_kills": 1}, True),
        (137, {"pod_kills": 1, "by_us": True}, False),
        (1, {"pod_kills": 1}, False),
        (137, {"pod_kills": -1}, False),
    ],
)
def test_oom_killed_from_conmon_and_kernel_counts(code: int, facts: dict[str, int], expected: bool) -> None:
    given = {"noted": False, "kills": 0, "pod_kills": 0, "by_us": False} | facts
    assert oom_killed(code, **given) is expected  # type: ignore[arg-type]  # one table for flags and counts


@pytest.mark.parametrize(
    ("code", "oom", "expected"),
    [(0, False, "Completed"), (0, True, "OOMKilled"), (1, False, "Error"), (137, True, "OOMKilled")],
)
def test_reason_of_an_exit_follows_code_and_oom_kill(code: int, oom: bool, expected: str) -> None:
    assert reason(code, oom) == expected


def test_processes_recorded_without_boot_id_get_the_last_one() -> None:
    old, new = ProcessRef(1, 2), ProcessRef(3, 4, "b2")
    record = of_boot(replace(RECORD, process=old, monitor=new), "b1")
    assert (record.process, record.monitor) == (ProcessRef(1, 2, "b1"), new)
    assert of_boot(RECORD, "b1") == RECORD


def test_running_container_must_exit_before_it_is_removed() -> None:
    assert LIFE_CYCLE.following(ContainerPhase.RUNNING) == {ContainerPhase.EXITED}
    for phase in ContainerPhase:
        # Only a creation is undone, and only before a client knows the container.
        assert (ContainerPhase.MAKING in LIFE_CYCLE.following(phase)) is (phase is ContainerPhase.CREATED)
        assert (ContainerPhase.RUNNING in LIFE_CYCLE.following(phase)) is (phase is ContainerPhase.CREATED)
