"""The runtime's health over time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.observe.runtime_health import RuntimeHealth, RuntimeHealthDeps
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry

READY = RuntimeConditions(True, True)
NO_NETWORK = RuntimeConditions(
    True, False, "NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
)


@dataclass
class Runtime:
    clock: VirtualClock = field(default_factory=VirtualClock)
    answer: RuntimeConditions | None = READY
    asked: int = 0
    recovered: int = 0
    events: list[str] = field(default_factory=list)

    async def ask(self) -> RuntimeConditions:
        self.asked += 1
        if self.answer is None:
            raise Transient("connection refused")
        return self.answer

    def serve_again(self) -> None:
        self.recovered += 1

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        assert pod is None
        self.events.append(f"{reason}: {message}")

    def health(self) -> RuntimeHealth:
        recorders = telemetry(self.clock, None, events=self)
        return RuntimeHealth(RuntimeHealthDeps(ask=self.ask, recovered=self.serve_again, telemetry=recorders))


async def test_before_the_first_answer_nothing_is_ready() -> None:
    health = Runtime().health()
    assert not health.current().runtime_ready
    assert health.healthy() == "the container runtime has not been checked yet"


async def test_runtime_failure_is_reported_once_and_recovery_is_noticed_soon() -> None:
    runtime = Runtime()
    health = runtime.health()
    task = asyncio.create_task(health.run())
    await runtime.clock.settle()
    assert (runtime.recovered, health.healthy()) == (1, None)
    runtime.answer = None
    await runtime.clock.advance(30)
    assert len(runtime.events) == 1
    assert "connection refused" in runtime.events[0]
    assert health.healthy()
    runtime.answer = READY
    await runtime.clock.advance(5)
    assert (runtime.recovered, health.healthy()) == (2, None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_known_from_the_first_answer_on() -> None:
    runtime = Runtime(answer=None)
    health = runtime.health()
    await health.check()
    assert not health.known()
    runtime.answer = RuntimeConditions(message="starting")
    await health.check()
    assert health.known()
    runtime.answer = None
    await health.check()
    assert health.known()


async def test_short_outage_is_not_reported_by_the_node() -> None:
    runtime = Runtime()
    health = runtime.health()
    assert not health.reported().responding, "a new agent knows no better state"
    await health.check()
    runtime.answer = None
    await runtime.clock.advance(29.9)
    await health.check()
    assert not health.current().runtime_ready
    assert health.reported() == READY
    await runtime.clock.advance(0.1)
    assert health.reported() == health.current()
    runtime.answer = NO_NETWORK
    await health.check()
    assert health.reported() == NO_NETWORK, "what the runtime itself tells is reported at once"


async def test_a_network_that_becomes_ready_wakes_the_pods() -> None:
    runtime = Runtime(answer=NO_NETWORK)
    health = runtime.health()
    await health.check()
    await health.check()
    assert runtime.recovered == 1
    assert "cni plugin" in health.current().message
    runtime.answer = READY
    await health.check()
    assert runtime.recovered == 2


async def test_ready_runtime_is_checked_every_five_seconds() -> None:
    runtime = Runtime()
    task = asyncio.create_task(runtime.health().run())
    await runtime.clock.advance(60)
    assert runtime.asked == 13
    task.cancel()
    await asyncio.wait([task])
