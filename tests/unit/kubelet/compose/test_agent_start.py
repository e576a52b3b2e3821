"""The first steps of an agent: their order, and the events of the enforcement of node allocatable."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.compose.agent import AgentStart, EnforcementEvents


class Levels:
    """The cgroups above the pods."""

    def __init__(self, unenforced: str | None = None) -> None:
        self.unenforced = unenforced
        self.retried = Callbacks[[bool, str]]()


def reported(events: Mock) -> list[tuple[str, str, str]]:
    return [each.args[1:] for each in events.event.call_args_list]


def test_enforcement_is_reported_at_the_start_and_when_a_retry_ends() -> None:
    levels: Any = Levels("busy")
    events = Mock()
    enforcement = EnforcementEvents(levels, events)
    enforcement.started(["pods are limited"])
    levels.retried(False, "still busy")
    levels.retried(True, "done")
    failed = "FailedNodeAllocatableEnforcement"
    assert reported(events) == [
        ("Normal", "NodeAllocatableEnforced", "pods are limited"),
        ("Warning", failed, "busy"),
        ("Warning", failed, "still busy"),
        ("Normal", "NodeAllocatableEnforced", "done"),
    ]


async def test_pods_that_exist_are_known_to_all_before_the_agent_says_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.kubelet.compose.agent.memory_volumes_may_swap", lambda _: False)
    steps, existing = AsyncMock(), [Mock()]
    steps.actuators.pod_resources.pods_before.return_value = existing
    steps.actuators.node = Mock(**{"resolv_conf.fault.return_value": "too long"})
    steps.admission = Mock()
    events = Mock()
    events.event.side_effect = lambda *_: steps.admission.admitted_before.assert_called()
    start = AgentStart(
        actuators=steps.actuators,
        health=steps.health,
        admission=steps.admission,
        recorders=Mock(events=events, history=steps.history),
        enforcement=Mock(),
        root=tmp_path,
    )
    await start.run()
    for load in (steps.actuators.runtime.allocations.load, steps.actuators.runtime.restarts.load):
        load.assert_awaited_once_with(existing)
    steps.actuators.users.load.assert_awaited_once_with(existing)
    steps.admission.admitted_before.assert_called_once_with(existing)
    steps.history.load.assert_awaited_once_with()
    assert reported(events) == [
        ("Normal", "Starting", "Starting kubelet."),
        ("Warning", "CheckLimitsForResolvConf", "too long"),
    ]
