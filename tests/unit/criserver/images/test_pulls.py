"""Pulls that are cut off, cancelled, side by side, on a full disk: fetched, shared and leftover data."""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterable
from functools import partialmethod
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import Bytes
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.image_types import Phase, Progress, RegistryUnavailable
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import parse
from pykubelet.criserver.images.registry import HostConfig, PullBandwidth, RegistryClient
from pykubelet.linux.filesystems.mounts import mount, unmount
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import settle, until
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.world import DIFFS, LAYERS, NoUnpacking, World, check


async def test_data_of_an_interrupted_pull_is_not_fetched_again(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    registry.gates = {DIFFS[1]: asyncio.Event()}
    missing = registry.blobs.pop(DIFFS[1])
    registry.blobs[DIFFS[1]] = missing[:-1]
    world = World(tmp_path)
    pull = asyncio.create_task(world.images.pull(f"{registry.host}/app:1"))
    await until(lambda: world.content.has(DIFFS[0], Bytes(len(LAYERS[0]))))
    registry.gates[DIFFS[1]].set()
    with pytest.raises(RegistryUnavailable, match="failed to pull image"):
        await pull
    registry.blobs[DIFFS[1]] = missing
    registry.seen.clear()
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert not [path for path, _, _ in registry.seen if DIFFS[0] in path]
    assert [ranged for path, _, ranged in registry.seen if DIFFS[1] in path] == [f"bytes={len(missing) - 1}-"]


async def test_files_of_pulled_images_are_used_in_threads(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    world = World(tmp_path)
    with files_in_loop(tmp_path) as used:
        image = await world.images.pull(f"{registry.host}/app:1")
        await world.images.recover()
    assert used == []
    check(world, image)


async def test_partial_file_of_a_blob_is_emptied_in_a_thread(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry may send it from its beginning; to free the gigabytes of an earlier attempt takes a while."""
    emptied: list[int] = []
    truncate = os.ftruncate

    def noted(file: int, length: int) -> None:
        emptied.append(threading.get_ident())
        truncate(file, length)

    monkeypatch.setattr(os, "ftruncate", noted)
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    world = World(tmp_path)
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert emptied and threading.get_ident() not in emptied


async def test_layers_are_reported_before_the_configuration_is_here(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    registry.pause = asyncio.Event()
    reported: list[Progress] = []
    pull = asyncio.ensure_future(World(tmp_path).images.pull(f"{registry.host}/app:1", None, reported.append))
    await registry.halfway.wait()
    name, sizes = f"{registry.host}/app:1", [Bytes(len(layer)) for layer in LAYERS[:2]]
    assert reported == [
        Progress(name, "", Phase.RESOLVING),
        Progress(name, "", Phase.RESOLVED, total=Bytes(sum(sizes))),
        *(Progress(name, digest, Phase.WAITING, total=size) for digest, size in zip(DIFFS, sizes, strict=False)),
    ]
    registry.pause.set()
    await pull
    assert reported[-1] == Progress(name, "", Phase.DONE, Bytes(sum(sizes)), Bytes(sum(sizes)))


async def test_running_pulls_are_listed_until_they_end(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    registry.pause = asyncio.Event()
    images, name, total = World(tmp_path).images, f"{registry.host}/app:1", Bytes(sum(map(len, LAYERS[:2])))
    pull = asyncio.ensure_future(images.pull(name))
    await registry.halfway.wait()
    (found,) = images.running_pulls
    assert (found.reference, found.phase, found.total) == (name, Phase.DOWNLOADING, total)
    assert 0 <= found.done < total
    registry.pause.set()
    await pull
    assert images.running_pulls == []
    with pytest.raises(Transient):
        await images.pull("127.0.0.1:1/none:1")
    assert images.running_pulls == []


async def test_a_layer_is_reported_as_it_comes_in(registry: FakeRegistry, tmp_path: Path) -> None:
    """A slow registry's, that is: less than what is written at once."""
    layer = random.Random(5).randbytes(300_000)
    registry.add_image("app:1", [layer], [digest(layer)])
    world = World(tmp_path)
    some, go_on = asyncio.Event(), asyncio.Event()

    def note(step: Progress) -> None:
        if step.phase is Phase.DOWNLOADING and step.done == len(layer) // 2:
            some.set()

    pull = asyncio.ensure_future(world.images.pull(f"{registry.host}/app:1", None, note))
    registry.pause = go_on
    # The configuration waits too, but is not reported.
    await registry.halfway.wait()
    registry.halfway.clear()
    go_on.set()
    registry.pause = asyncio.Event()
    async with asyncio.timeout(20):
        await some.wait()
    registry.pause.set()
    check(world, await pull)


async def test_bytes_that_a_pull_has_fetched_are_reported_at_its_end(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    ended: list[Bytes] = []
    world = World(tmp_path, on_pulled=lambda fetched, seconds: ended.append(fetched))
    for _ in range(2):
        await world.images.pull(f"{registry.host}/app:1")
    assert ended == [sum(map(len, LAYERS[:2])), 0]


async def test_two_pulls_of_one_image_share_the_work(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    world = World(tmp_path)
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(world.images.pull(f"{registry.host}/app:1")) for _ in range(2)]
    assert both[0].result() == both[1].result()
    fetched = [path for path, _, _ in registry.seen if "/blobs/" in path]
    assert len(fetched) == len(set(fetched)) == 5


async def test_next_attempt_goes_on_with_what_a_cancelled_pull_has_fetched(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """A kubelet that restarts cancels its pulls, and requests them again."""
    registry.add_image("app:1", LAYERS, DIFFS)
    registry.pause = asyncio.Event()
    world = World(tmp_path)
    reported: list[Progress] = []
    task = asyncio.create_task(world.images.pull(f"{registry.host}/app:1", None, reported.append))
    await registry.halfway.wait()  # of the configuration
    of_configuration, registry.pause = registry.pause, asyncio.Event()
    of_configuration.set()
    await until(lambda: any(step.phase is Phase.DOWNLOADING and step.done for step in reported))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    partial = {path.stem: path.stat().st_size for path in (world.content.root / "ingest").iterdir()}
    assert any(partial.values())
    registry.pause.set()
    registry.seen.clear()
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    resumed = {path.rpartition(":")[2]: ranged for path, _, ranged in registry.seen if ranged}
    assert resumed == {name.partition("-")[2]: f"bytes={size}-" for name, size in partial.items() if size}


async def test_pull_that_fails_for_another_reason_leaves_nothing(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.blobs[DIFFS[0]] = bytes(len(LAYERS[0]))
    world = World(tmp_path)
    with pytest.raises(Invalid):
        await world.images.pull(f"{registry.host}/app:1")
    assert world.content.digests() == set() and list((world.content.root / "ingest").iterdir()) == []


async def test_second_pull_continues_after_the_first_is_cancelled(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    registry.pause = asyncio.Event()
    world = World(tmp_path)
    first = asyncio.create_task(world.images.pull(f"{registry.host}/app:1"))
    await registry.halfway.wait()
    assert list((world.content.root / "ingest").iterdir())
    second = asyncio.create_task(world.images.pull(f"{registry.host}/app:1"))
    await settle()  # it waits for the first
    first.cancel()
    registry.pause.set()
    check(world, await second)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_no_more_than_three_layers_come_at_once(registry: FakeRegistry, tmp_path: Path) -> None:
    layers = [random.Random(seed).randbytes(1000 + seed) for seed in range(12)]
    registry.add_image("app:1", layers, [digest(layer) for layer in layers])
    registry.delay = {digest(layer): 0.02 for layer in layers}
    world = World(tmp_path)
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert registry.most == 3


async def test_a_mirror_that_is_down_is_asked_once(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    asked = []
    hosts = {registry.host: HostConfig(("http://127.0.0.1:1", "http://127.0.0.1:2/path"), plain_http=True)}
    world = World(tmp_path, hosts)
    client = world.registry
    async with client.open(parse(f"{registry.host}/app:1"), None) as repository:
        asked = repository.servers
        await repository.manifest("1")
    assert [server.failed for server in asked] == [True, True, False]
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert world.clock.slept == [], "there is no wait for a mirror as long as there is another server"


@pytest.mark.root
async def test_a_full_disk_is_said_and_cleaned_up(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    registry.add_image("small:1", [b"tar"], [digest(b"tar")])
    small = tmp_path / "small"
    small.mkdir()
    mount("tmpfs", str(small), "tmpfs", data="size=5m")
    try:
        world = World(small)
        said = rf"failed to pull image {registry.host}/app:1: .*(the disk has no room|No space left)"
        with pytest.raises(Transient, match=said) as failed:
            await world.images.pull(f"{registry.host}/app:1")
        assert not isinstance(failed.value, RegistryUnavailable)
        assert world.content.digests() == set() and list((world.content.root / "ingest").iterdir()) == []
        check(world, await world.images.pull(f"{registry.host}/small:1"))
    finally:
        unmount(str(small), lazy=True)


async def test_all_pulls_together_keep_to_the_bandwidth(registry: FakeRegistry, tmp_path: Path) -> None:
    """The clock stands still, so the last wait is the whole time of both pulls, less the burst."""
    registry.add_image("a:1", LAYERS[:2], DIFFS[:2])
    registry.add_image("b:1", LAYERS[2:], DIFFS[2:])
    world = World(tmp_path, bandwidth=1_000_000)
    await asyncio.gather(*(world.images.pull(f"{registry.host}/{name}:1") for name in "ab"))
    configurations = 2 * 1000
    total = sum(map(len, LAYERS))
    assert (total - 100_000) / 1e6 <= max(world.clock.slept) <= (total + configurations) / 1e6
    world.clock.slept.clear()
    registry.add_image("c:1", [b"other" * 100_000], [digest(b"other" * 100_000)])
    world.bandwidth.configure(0)
    await world.images.pull(f"{registry.host}/c:1")
    assert world.clock.slept == []


async def test_limited_pull_takes_its_time(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    clock, world = SystemClock(), World(tmp_path)
    client = RegistryClient(hosts=dict, bandwidth=PullBandwidth(8_000_000, clock), clock=clock)
    begun = clock.monotonic()
    async with client.open(parse(f"{registry.host}/app:1"), None) as repository:
        for layer, diff in zip(LAYERS[:2], DIFFS[:2], strict=True):
            with world.content.writer(diff, Bytes(len(layer))) as writer:
                writer.resume()
                await repository.blob(Descriptor(diff, Bytes(len(layer))), writer, lambda _: None)
    assert clock.monotonic() - begun >= (sum(map(len, LAYERS[:2])) - 800_000) / 8e6
    assert [world.content.has(diff, Bytes(len(layer))) for layer, diff in zip(LAYERS, DIFFS, strict=True)][:2] == [
        True
    ] * 2


async def test_removed_image_is_deleted_while_another_pull_goes_on(registry: FakeRegistry, tmp_path: Path) -> None:
    """A registry that sends a little at a time keeps a pull going for days: the disk must not stay full so long."""
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    registry.add_image("slow:1", LAYERS[1:3], DIFFS[1:3])
    world = World(tmp_path)
    app = await world.images.pull(f"{registry.host}/app:1")
    registry.pause = asyncio.Event()
    slow = asyncio.create_task(world.images.pull(f"{registry.host}/slow:1"))
    await registry.halfway.wait()
    await world.images.remove(app.id)
    assert not world.content.digests() & {DIFFS[0], app.id, app.manifest}
    registry.pause.set()
    check(world, await slow)
    assert not [path for path, _, _ in registry.seen if DIFFS[1] in path][1:], "the layer that both have was kept"


async def test_image_that_is_removed_while_its_layers_are_written_to_the_disk_was_pulled(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gigabytes take seconds to write, and a kubelet that is short of space removes what no container uses."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)

    async def sync(layers: NoUnpacking, chain_ids: Iterable[str]) -> None:
        (image,) = world.images.list()
        await world.images.remove(image.id)

    monkeypatch.setattr(NoUnpacking, "sync", sync)
    app = await world.images.pull(f"{registry.host}/app:1")
    assert app.tags == (f"{registry.host}/app:1",)
    assert (world.images.list(), world.content.digests()) == ([], set())


async def test_failed_pull_is_cleaned_up_while_another_goes_on(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("bad:1", LAYERS[:1], DIFFS[:2])
    manifest = registry.add_image("slow:1", LAYERS[1:2], DIFFS[1:2])
    registry.pause = asyncio.Event()
    world = World(tmp_path)
    slow = asyncio.create_task(world.images.pull(f"{registry.host}/slow:1"))
    await registry.halfway.wait()
    paused, registry.pause = registry.pause, None
    with pytest.raises(Invalid):
        await world.images.pull(f"{registry.host}/bad:1")
    assert world.content.digests() == {manifest}
    paused.set()
    check(world, await slow)


async def test_blob_that_is_being_removed_when_a_pull_begins_is_fetched_again(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)
    app = await world.images.pull(f"{registry.host}/app:1")
    begun, go_on = threading.Event(), threading.Event()

    def removed_slowly(self: ContentStore, blob: str, remove: Callable[[ContentStore, str], None]) -> None:
        begun.set()
        assert go_on.wait(30)
        remove(self, blob)

    monkeypatch.setattr(ContentStore, "remove", partialmethod(removed_slowly, remove=ContentStore.remove))
    removal = asyncio.create_task(world.images.remove(app.id))
    await until(begun.is_set)
    again = asyncio.create_task(world.images.pull(f"{registry.host}/app:1"))
    await until(lambda: world.images.running_pulls and world.images.running_pulls[0].phase is not Phase.RESOLVING)
    go_on.set()
    await removal
    check(world, await again)
