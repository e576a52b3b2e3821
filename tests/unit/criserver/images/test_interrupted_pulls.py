"""Data that is kept of pulls that their registry interrupted, for how long, and what frees it before."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.criserver.images import ImageManager
from pykubelet.criserver.images.content import BlobWriter, ContentStore
from pykubelet.criserver.images.image_types import RegistryUnavailable
from pykubelet.criserver.images.interrupted_pulls import InterruptedPulls
from pykubelet.criserver.unpack.room import Reserve, Room
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check


async def _interrupt(world: World, registry: FakeRegistry, name: str, layer: int) -> None:
    """Pull an image of this layer, which the registry sends but for its last byte."""
    registry.add_image(name, [LAYERS[layer]], [DIFFS[layer]])
    registry.blobs[DIFFS[layer]] = LAYERS[layer][:-1]
    with pytest.raises(RegistryUnavailable):
        await world.images.pull(f"{registry.host}/{name}")
    registry.blobs[DIFFS[layer]] = LAYERS[layer]
    assert _partial(world) == {DIFFS[layer]} and world.content.digests(), "manifest and configuration are whole"


@contextmanager
def running(world: World) -> Iterator[None]:
    """Collect the data of interrupted pulls within the block."""
    task = asyncio.create_task(world.images.interrupted.run(world.images.collect))
    try:
        yield
    finally:
        task.cancel()


def _partial(world: World) -> set[str]:
    return {path.name.partition(".")[0].replace("-", ":", 1) for path in (world.content.root / "ingest").iterdir()}


async def test_data_of_interrupted_pulls_is_removed_when_the_disk_is_short(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that breaks off each pull, of another image each time, must not fill the disk."""
    world = World(tmp_path)
    await _interrupt(world, registry, "a:1", 0)
    with running(world), monkeypatch.context() as patch:
        patch.setattr(Room, "take", _no_room)
        await world.clock.advance(10)
        await until(lambda: not (world.content.digests() or _partial(world)))
    check(world, await world.images.pull(f"{registry.host}/a:1"))


def _no_room(room: Room, size: int) -> None:
    raise OSError(28, "the disk has no room")


@pytest.mark.parametrize(("share", "kept"), [(1e-9, True), (1.0, False)])
async def test_interrupted_pulls_leave_a_part_of_the_disk_free(
    registry: FakeRegistry, tmp_path: Path, share: float, kept: bool
) -> None:
    await _interrupt(World(tmp_path), registry, "a:1", 0)
    world = World(tmp_path, spare=Reserve(share))
    await world.images.recover()
    assert bool(_partial(world)) is kept


async def test_data_of_an_interrupted_pull_is_removed_after_an_hour(registry: FakeRegistry, tmp_path: Path) -> None:
    world = World(tmp_path)
    with running(world):
        await _interrupt(world, registry, "a:1", 0)
        await world.clock.advance(3500)
        await world.images.collect()
        assert _partial(world) == {DIFFS[0]}
        await world.clock.advance(200)
        await until(lambda: not (world.content.digests() or _partial(world)))


REMOVALS: list[Callable[[ImageManager, str], Coroutine[object, object, object]]] = [
    lambda images, name: images.remove(name),
    lambda images, name: images.remove_name(name, lambda image: (), force=False),
    lambda images, name: images.prune(lambda image: (), (), also_tagged=True, dry_run=False),
]


@pytest.mark.parametrize("remove", REMOVALS)
async def test_removal_of_an_image_frees_what_interrupted_pulls_have_fetched(
    registry: FakeRegistry, tmp_path: Path, remove: Callable[[ImageManager, str], Coroutine[object, object, object]]
) -> None:
    """Kubelets may have thresholds far above those by which this server takes a disk for short."""
    world = World(tmp_path)
    registry.add_image("old:1", LAYERS[3:], DIFFS[3:])
    old = await world.images.pull(f"{registry.host}/old:1")
    await _interrupt(world, registry, "a:1", 0)
    await remove(world.images, old.tags[0])
    assert not (world.content.digests() or _partial(world))


async def test_of_an_image_that_changes_with_each_attempt_only_the_last_one_is_kept(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    world = World(tmp_path)
    for layer in range(3):
        await _interrupt(world, registry, "a:1", layer)


@pytest.mark.parametrize("fails", ["/manifests/", "/blobs/"])
async def test_attempts_while_a_registry_is_down_keep_what_is_here_for_its_hour(
    registry: FakeRegistry, tmp_path: Path, fails: str
) -> None:
    """A registry that breaks off is often down when the kubelet tries again, a few seconds later."""
    world = World(tmp_path)
    await _interrupt(world, registry, "a:1", 0)
    registry.fails = fails
    await world.clock.advance(3500)
    with pytest.raises(RegistryUnavailable):
        await world.images.pull(f"{registry.host}/a:1")
    assert _partial(world) == {DIFFS[0]}
    registry.fails = ""
    registry.seen.clear()
    check(world, await world.images.pull(f"{registry.host}/a:1"))
    assert [ranged for path, _, ranged in registry.seen if DIFFS[0] in path] == [f"bytes={len(LAYERS[0]) - 1}-"]


async def test_attempts_that_bring_nothing_keep_what_is_here_no_longer(registry: FakeRegistry, tmp_path: Path) -> None:
    world = World(tmp_path)
    await _interrupt(world, registry, "a:1", 0)
    registry.fails = "/manifests/"
    for _ in range(3):
        await world.clock.advance(1300)
        with pytest.raises(RegistryUnavailable):
            await world.images.pull(f"{registry.host}/a:1")
    assert not (world.content.digests() or _partial(world))


async def test_partial_blob_of_a_running_pull_is_kept_whatever_its_age(registry: FakeRegistry, tmp_path: Path) -> None:
    """The wall clock may be set, and a server may ask for more than an hour of patience."""
    registry.add_image("slow:1", LAYERS[:1], DIFFS[:1])
    registry.add_image("app:1", [], [])
    world = World(tmp_path)
    registry.pause = asyncio.Event()
    slow = asyncio.create_task(world.images.pull(f"{registry.host}/slow:1"))
    await registry.halfway.wait()
    paused, registry.pause = registry.pause, None
    world.clock.jump_wall(1e9)
    app = await world.images.pull(f"{registry.host}/app:1")
    paused.set()
    await slow
    await world.images.remove(app.id)
    (image,) = world.images.list()
    check(world, image)


async def test_next_server_goes_on_with_an_interrupted_pull(registry: FakeRegistry, tmp_path: Path) -> None:
    await _interrupt(World(tmp_path), registry, "a:1", 0)
    world = World(tmp_path)
    await world.images.recover()
    registry.seen.clear()
    assert _partial(world) == {DIFFS[0]}
    check(world, await world.images.pull(f"{registry.host}/a:1"))
    assert [ranged for path, _, ranged in registry.seen if DIFFS[0] in path] == [f"bytes={len(LAYERS[0]) - 1}-"]


async def test_next_server_keeps_the_whole_blobs_of_an_interrupted_pull(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("a:1", LAYERS[:2], DIFFS[:2])
    registry.gates = {DIFFS[1]: asyncio.Event()}
    registry.blobs[DIFFS[1]] = LAYERS[1][:-1]
    former = World(tmp_path)
    pull = asyncio.create_task(former.images.pull(f"{registry.host}/a:1"))
    await until(lambda: former.content.has(DIFFS[0], Bytes(len(LAYERS[0]))))
    registry.gates[DIFFS[1]].set()
    with pytest.raises(RegistryUnavailable):
        await pull
    registry.blobs[DIFFS[1]] = LAYERS[1]
    world = World(tmp_path)
    await world.images.recover()
    registry.seen.clear()
    check(world, await world.images.pull(f"{registry.host}/a:1"))
    assert not [path for path, _, _ in registry.seen if DIFFS[0] in path]


async def test_next_server_keeps_what_was_whole_when_the_server_before_was_killed(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """An image that is unpacked has no partial blob. Another pull may end before the start has made all repairs."""
    registry.add_image("a:1", LAYERS[:1], DIFFS[:1])
    registry.add_image("small:1", [], [])
    await World(tmp_path).images.pull(f"{registry.host}/a:1")
    (tmp_path / "images" / "index.json").unlink()
    world = World(tmp_path)
    await world.images.pull(f"{registry.host}/small:1")
    await world.images.recover()
    registry.seen.clear()
    await world.images.pull(f"{registry.host}/a:1")
    assert not [path for path, _, _ in registry.seen if DIFFS[0] in path]


async def test_slow_registry_holds_up_no_pull_of_the_same_layer_from_another_one(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """It may send 1 KiB/s, and name the layers of any image; what it has sent is not continued either."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)
    async with FakeRegistry().run() as hostile:
        hostile.add_image("evil:1", LAYERS[:1], DIFFS[:1])
        hostile.blobs[DIFFS[0]] = bytes(len(LAYERS[0]))
        hostile.pause = asyncio.Event()
        slow = asyncio.create_task(world.images.pull(f"{hostile.host}/evil:1"))
        await hostile.halfway.wait()  # of the configuration
        of_configuration, hostile.pause = hostile.pause, asyncio.Event()
        of_configuration.set()
        await until(lambda: bool(_partial(world) & {DIFFS[0]}))
        async with asyncio.timeout(20):
            app = await world.images.pull(f"{registry.host}/app:1")
        assert not slow.done() and [ranged for path, _, ranged in registry.seen if DIFFS[0] in path] == [""]
        slow.cancel()
        await asyncio.wait((slow,))
        hostile.pause.set()
    await world.after_a_while()
    check(world, app)


async def test_partial_blobs_of_other_registries_that_are_read_again_hold_up_no_pull(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have announced any size, and sent much of it."""
    reading, never = threading.Semaphore(0), threading.Event()
    resume = BlobWriter.resume

    def long(writer: BlobWriter, is_stopped: Callable[[], bool]) -> int:
        reading.release()
        while writer._size == 1 << 40 and not is_stopped():
            never.wait(0.01)
        return resume(writer, is_stopped)

    monkeypatch.setattr(BlobWriter, "resume", long)
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        pulls = []
        for _ in range(blocking.PER_OWNER):
            hostile = await stack.enter_async_context(FakeRegistry().run())
            media_type, manifest = hostile.make_image(LAYERS[:1], DIFFS[:1])
            huge = manifest.replace(b'"size": %d' % len(LAYERS[0]), b'"size": %d' % (1 << 40))
            hostile.add_manifest("evil:1", media_type, huge)
            pulls.append(asyncio.create_task(world.images.pull(f"{hostile.host}/evil:1")))
        await until(lambda: len(_partial(world)) > 0 and reading._value > blocking.PER_OWNER)
        async with asyncio.timeout(20):
            await world.images.pull(f"{registry.host}/app:1")
        for pull in pulls:
            pull.cancel()
        await asyncio.wait(pulls)


async def test_partial_blob_is_read_again_no_longer_than_its_pull_goes_on(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 6 GB kept a server that was told to end until it exited by force, after 15 s."""
    begun, never = threading.Event(), threading.Event()

    def long(writer: BlobWriter, is_stopped: Callable[[], bool]) -> None:
        begun.set()
        while not is_stopped():
            never.wait(0.01)

    monkeypatch.setattr(BlobWriter, "resume", long)
    registry.add_image("a:1", LAYERS[:1], DIFFS[:1])
    pull = asyncio.create_task(World(tmp_path).images.pull(f"{registry.host}/a:1"))
    await until(begun.is_set)
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull


@pytest.mark.parametrize("pieces", [0, 2])
async def test_partial_blob_is_whole_after_its_reading_was_stopped(tmp_path: Path, pieces: int) -> None:
    store, left = ContentStore(tmp_path), iter(range(pieces))
    with store.writer(DIFFS[0], 3_000_000) as writer:
        writer.write(LAYERS[0][:2_500_000])
    with store.writer(DIFFS[0], 3_000_000) as writer:
        writer.resume(lambda: next(left, None) is None)
    (partial,) = (tmp_path / "ingest").iterdir()
    assert partial.stat().st_size == 2_500_000


async def test_next_server_removes_what_no_one_pulls_again(registry: FakeRegistry, tmp_path: Path) -> None:
    await _interrupt(World(tmp_path), registry, "a:1", 0)
    world = World(tmp_path)
    await world.images.recover()
    with running(world):
        await world.clock.advance(3700)
        await until(lambda: not (world.content.digests() or _partial(world)))


async def test_oldest_of_too_many_interrupted_pulls_is_forgotten(tmp_path: Path) -> None:
    pulls = InterruptedPulls(tmp_path, spare=Reserve(), clock=VirtualClock())
    for number in range(257):
        pulls.add(str(number % 256), [f"blob-{number}"])
    kept = await pulls.kept()
    assert "blob-0" not in kept and len(kept) == 256
    pulls.add("one more", ["blob-257"])
    assert {"blob-1", "blob-2"} - await pulls.kept() == {"blob-1"}


async def test_interrupted_pulls_are_forgotten_for_one_of_many_blobs(tmp_path: Path) -> None:
    """Each blob takes up to a millisecond to be removed, while images are neither added nor removed."""
    pulls = InterruptedPulls(tmp_path, spare=Reserve(), clock=VirtualClock())
    for number in range(10):
        pulls.add(str(number), [f"blob-{number}-{count}" for count in range(500)])
    kept = await pulls.kept()
    assert len(kept) == 4000 and not {"blob-0-0", "blob-1-0"} & kept
    pulls.add("left", [f"left-{count}" for count in range(9000)])
    assert len(await pulls.kept()) == 9000
    pulls.add("one more", ["blob"])
    assert await pulls.kept() == {"blob"}


@pytest.mark.parametrize("announced", [len(LAYERS[0]), len(LAYERS[0]) + 9])
async def test_failed_pull_drops_nothing_that_another_registry_has_sent(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path, announced: int
) -> None:
    """Its manifest may name the layers of any image, which it does not have."""
    world = World(tmp_path)
    await _interrupt(world, registry, "a:1", 0)
    media_type, manifest = other.make_image(LAYERS[:1], DIFFS[:1])
    size = b'"size": %d'
    other.add_manifest("evil:1", media_type, manifest.replace(size % len(LAYERS[0]), size % announced))
    other.blobs[DIFFS[0]] = bytes(announced)
    with pytest.raises(Invalid, match="came as"):
        await world.images.pull(f"{other.host}/evil:1")
    registry.seen.clear()
    check(world, await world.images.pull(f"{registry.host}/a:1"))
    assert [ranged for path, _, ranged in registry.seen if DIFFS[0] in path] == [f"bytes={len(LAYERS[0]) - 1}-"]


async def test_next_server_drops_the_partial_files_of_blobs_that_another_registry_has_sent(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    await _interrupt(World(tmp_path), registry, "a:1", 0)
    world = World(tmp_path)
    other.add_image("a:1", LAYERS[:1], DIFFS[:1])
    check(world, await world.images.pull(f"{other.host}/a:1"))
