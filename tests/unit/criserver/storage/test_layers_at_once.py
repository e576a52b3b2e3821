"""One layer that several calls unpack or remove at a time."""

import asyncio
import gzip
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.criserver.storage import layers
from pykubelet.testing.wait import until
from tests.unit.criserver.storage.world import World, directory, entry, tar

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_layer_that_is_unpacked_from_two_blobs_at_a_time_is_kept_once(world: World) -> None:
    plain = tar([entry("a", data=b"content")])
    world.add(plain)
    one = list(world.stack)
    world.stack.clear()
    world.add(plain, gzip.compress(plain))
    first, second = await asyncio.gather(world.layers.ensure(one), world.layers.ensure(world.stack))
    assert first == second and world.layers.get(one[0].chain_id) == first
    assert {path.name for path in world.layers.directory.iterdir()} == {"0", str(first.directory)}
    assert world.layers.leftovers() == ()


async def test_layer_that_is_being_removed_is_unpacked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.unpack([entry("a")])
    chain, removing, go_on = world.stack[0].chain_id, asyncio.Event(), asyncio.Event()
    remove = layers._remove_in_time

    async def slow(*args: Any) -> None:
        removing.set()
        await go_on.wait()
        await remove(*args)

    monkeypatch.setattr(layers, "_remove_in_time", slow)
    pruning = asyncio.create_task(world.layers.prune(()))
    await removing.wait()
    async with world.layers.pinned((chain,)):
        again = asyncio.create_task(world.layers.ensure(world.stack))
        await asyncio.sleep(0)
        go_on.set()
        await pruning
        meta = await again
    assert (meta.directory, world.layers.get(chain)) == (2, meta)


@pytest.mark.parametrize("step", ["look", "remove"])
async def test_cancelled_layer_that_may_need_those_below_ends_soon(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its directories may be 10,000, and the layers below 499; a server that was told to end waited for all that."""
    begun, never = threading.Event(), threading.Event()

    def look(*args: object) -> int:
        begun.set()
        never.wait(0.01)
        raise FileNotFoundError

    def remove(*args: object) -> Iterator[None]:
        for _ in range(1000):
            begun.set()
            never.wait(0.01)
            yield

    if step == "look":
        monkeypatch.setattr(layers, "open_in_root", look)
    else:
        monkeypatch.setattr(layers, "removal_steps", remove)
    world.add(tar([directory("0")]))
    world.add(tar([entry(f"{number}/file") for number in range(1000)]))
    unpacking = asyncio.create_task(world.layers.ensure(world.stack))
    await until(begun.is_set)
    unpacking.cancel()
    async with asyncio.timeout(5):
        await asyncio.wait((unpacking,))
    assert unpacking.cancelled()


async def test_layers_whose_directories_take_long_to_look_for_are_unpacked_over_those_below(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five images could keep 15 threads of the server busy with that for days, and pods took 10 s and more to start."""
    never, looked = threading.Event(), list[str]()
    looking = most = 0

    def look(root: Path, path: str, *args: object) -> int:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        never.wait(0.01)
        looking -= 1
        looked.append(path)
        raise FileNotFoundError

    monkeypatch.setattr(layers, "open_in_root", look)
    world.add(tar([directory("0")]))
    stacks = []
    for name in ("a", "b"):
        world.add(tar([entry(f"{name}{number}/file") for number in range(500)]))
        stacks.append(tuple(world.stack))
        world.stack.pop()
    for meta in await asyncio.gather(*map(world.layers.ensure, stacks)):
        assert len(list((world.layers.directory / str(meta.directory)).glob("*/file"))) == 500
    assert most == 1 and 2 < len(looked) < 200
