"""Notifications without a pause while the available memory is sometimes above a threshold and sometimes below it."""

from dataclasses import dataclass

import pytest

from pykubelet.kubelet.observe.eviction.eviction_manager import CHECK_SECONDS, QUIET_SECONDS
from pykubelet.kubelet.observe.eviction.eviction_types import Signal, SignalObservation
from tests.unit.kubelet.observe.eviction.build import make_pod
from tests.unit.kubelet.observe.eviction.machine import HARD, Machine, watching

LINE = "pressure: memory has become short since the last look"


@dataclass
class Swinging(Machine):
    """A machine whose memory is short at each reading of memory only, and not at the check that follows."""

    swings: bool = True

    async def read_memory(self) -> dict[Signal, SignalObservation]:
        self.memory_looks += 1
        return {Signal.MEMORY: SignalObservation(99 if self.swings else 500, 1000)}


def swinging() -> Swinging:
    machine = Swinging(pods=[make_pod("a")])
    machine.seen[Signal.MEMORY] = SignalObservation(101, 1000)
    return machine


async def test_storm_around_a_threshold_costs_ten_checks_per_second_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    machine = swinging()
    async with watching(machine, HARD):
        for _ in range(1000):
            machine.notify()
            await machine.clock.advance(0.005)
    assert 20 <= machine.looks <= 5 / QUIET_SECONDS + 2
    assert [record.getMessage() for record in caplog.records].count(LINE) == 1


async def test_shortage_after_a_quiet_time_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machine = swinging()
    async with watching(machine, HARD):
        for _ in range(2):
            machine.swings = True
            machine.notify()
            await machine.clock.advance(1.5)
            machine.swings = False
            await machine.clock.advance(2 * CHECK_SECONDS)
    assert [record.getMessage() for record in caplog.records].count(LINE) == 2


async def test_shortage_during_a_storm_leads_to_an_eviction() -> None:
    machine = swinging()
    async with watching(machine, HARD):
        for round_number in range(60):
            if round_number == 20:
                machine.short()
            machine.notify()
            await machine.clock.advance(0.005)
        assert "Evicted a 1" in machine.done


async def test_kernel_notifies_after_a_growth_of_at_least_a_mebibyte() -> None:
    machine = swinging()
    async with watching(machine, HARD):
        assert machine.growth == {Signal.MEMORY: (1 << 20,)}
