"""Pods take turns in starting; who holds a turn for too long keeps nobody waiting."""

import asyncio
from dataclasses import replace

import pytest

from pykubelet.kubelet.actuate.podruntime.turns import Turns
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_cri import Fault
from tests.unit.kubelet.actuate.podruntime.build import pod_of
from tests.unit.kubelet.actuate.podruntime.world import World


async def test_so_many_at_a_time_in_the_order_of_asking() -> None:
    turns, at_once, most, order = Turns(2, 60.0), 0, 0, list[int]()

    async def start(number: int) -> None:
        nonlocal at_once, most
        async with turns.turn():
            order.append(number)
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(7):
            group.create_task(start(number), name=f"pod {number}")
    assert most == 2
    assert order == list(range(7))


async def test_a_turn_that_lasts_too_long_is_given_away() -> None:
    turns = Turns(1, 0.01)
    async with asyncio.timeout(10), turns.turn(), turns.turn():
        pass


async def test_failure_and_cancellation_give_the_turn_back() -> None:
    turns = Turns(1, 60.0)
    with pytest.raises(ValueError, match="no sandbox"):
        async with turns.turn():
            raise ValueError("no sandbox")
    holder = asyncio.create_task(_hold(turns), name="holder")
    waiter = asyncio.create_task(_hold(turns), name="waiter")
    await asyncio.sleep(0)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    async with asyncio.timeout(10), turns.turn():
        pass


async def test_a_turn_given_away_by_time_is_not_given_back_again() -> None:
    turns = Turns(1, 0.01)
    async with asyncio.timeout(10), turns.turn(), turns.turn():
        pass  # the second came by the time that was over
    turns_held = 0
    async with turns.turn():
        turns_held += 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001), turns.turn():
                turns_held += 1
    assert turns_held == 1


async def _hold(turns: Turns) -> None:
    async with turns.turn():
        await asyncio.Event().wait()


async def test_pods_wanted_at_once_start_one_after_the_other(world: World) -> None:
    world.config = replace(world.config, starts_at_once=1, longest_turn=60.0)
    world.restart()
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(world.sync(_pod(number)), name=f"pod {number}")
    made = [record.method for record in world.cri.log if record.method in {"RunPodSandbox", "StartContainer"}]
    assert made == ["RunPodSandbox", "StartContainer"] * 3


async def test_a_pod_whose_sandbox_hangs_keeps_no_other_from_starting(world: World) -> None:
    world.config = replace(world.config, starts_at_once=1, longest_turn=0.01)
    world.restart()
    hang = world.cri.inject(Fault("RunPodSandbox", hang=True, times=1))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        hanging = group.create_task(world.sync(_pod(0)), name="hanging pod")
        await world.clock.advance(0)
        assert hang.hits == 1
        assert (await world.sync(_pod(1))).changed
        assert not hanging.done()
        hang.release()


def _pod(number: int) -> Pod:
    return pod_of(meta={"name": f"web-{number}", "uid": f"uid-{number}"})
