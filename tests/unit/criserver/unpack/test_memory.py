"""The memory that workers take at the same time."""

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from pykubelet.base.units import GIB, MIB, Bytes
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.criserver.unpack.plan.memory import memory_of_worker
from pykubelet.testing.wait import nothing_within
from tests.unit.criserver.storage.world import World, entry, tar


@pytest.mark.parametrize(
    ("total", "memory"),
    [(2 * GIB, 64 * MIB), (8 * GIB, 128 * MIB), (16 * GIB, 256 * MIB), (512 * GIB, 256 * MIB)],
)
def test_workers_together_take_a_part_of_the_machine(total: int, memory: int) -> None:
    assert memory_of_worker(Bytes(total)) == memory


@pytest.mark.root
@pytest.mark.parametrize(("most", "waits"), [(Bytes(1 * MIB), True), (Bytes(256 * MIB), False)])
async def test_worker_that_takes_much_memory_waits_until_no_other_does(
    tmp_path: Path, most: Bytes, waits: bool
) -> None:
    world = World(tmp_path, Limits(memory_alone=most))
    world.add(tar([entry(f"file-{number}") for number in range(20)]))
    another = os.open(world.layers.directory, os.O_RDONLY)
    fcntl.flock(another, fcntl.LOCK_EX)
    unpacking = asyncio.create_task(world.layers.ensure(world.stack))
    if waits:
        await nothing_within(unpacking.done, 2)
    else:
        await unpacking
    os.close(another)
    assert (await unpacking).inodes == 21
