"""Start slots: the concurrency limit of pod starts; a slot held for too long is released."""

import asyncio

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.actuate.podruntime.start.start_slots import StartSlots, slot_count
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_cri import Fault
from tests.unit.kubelet.actuate.podruntime.build import pod_of
from tests.unit.kubelet.actuate.podruntime.world import World


def test_number_of_slots_grows_with_the_cpus_and_is_never_below_eight() -> None:
    assert [slot_count(cpus) for cpus in (1, 2, 3, 16)] == [8, 8, 12, 64]


async def test_slots_are_limited_and_in_request_order() -> None:
    slots, at_once, most, order = StartSlots(2, 60.0), 0, 0, list[int]()

    async def start(number: int) -> None:
        nonlocal at_once, most
        async with slots.slot():
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


async def test_slot_held_too_long_is_released() -> None:
    slots = StartSlots(1, 0.01)
    async with asyncio.timeout(10), slots.slot(), slots.slot():
        pass


async def test_failed_or_cancelled_start_releases_its_slot() -> None:
    slots = StartSlots(1, 60.0)
    with pytest.raises(ValueError, match="no sandbox"):
        async with slots.slot():
            raise ValueError("no sandbox")
    holder = asyncio.create_task(_hold(slots), name="holder")
    waiter = asyncio.create_task(_hold(slots), name="waiter")
    await asyncio.sleep(0)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    async with asyncio.timeout(10), slots.slot():
        pass


async def test_slot_released_by_time_is_not_released_twice() -> None:
    slots = StartSlots(1, 0.3)
    async with asyncio.timeout(10), slots.slot(), slots.slot():
        pass  # the second came by the time that was over
    slots_held = 0
    async with slots.slot():
        slots_held += 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001), slots.slot():
                slots_held += 1
    assert slots_held == 1


async def _hold(slots: StartSlots) -> None:
    async with slots.slot():
        await asyncio.Event().wait()


async def test_pods_start_one_after_the_other_with_one_slot(world: World) -> None:
    world.config = replace(world.config, start_slots=1, start_slot_timeout=60.0)
    world.restart()
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(world.sync(_pod(number)), name=f"pod {number}")
    made = [record.method for record in world.cri.log if record.method in {"RunPodSandbox", "StartContainer"}]
    assert made == ["RunPodSandbox", "StartContainer"] * 3


async def test_hung_sandbox_does_not_block_other_pods(world: World) -> None:
    world.config = replace(world.config, start_slots=1, start_slot_timeout=0.01)
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
