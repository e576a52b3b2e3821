"""Whatever lies in the place of images, the server opens them, says what it could not use, and pulls go on."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.files.atomic import write_atomic
from pykubelet.criserver.compose.images import ImageComponents, open_images
from pykubelet.criserver.config import Settings
from pykubelet.criserver.images import ContentStore, ImageIndex
from pykubelet.criserver.images import index as index_module
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.types import ProtectedIds
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import held_calls, settle, until
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path) -> None:
    (path / "below").mkdir(parents=True)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _newer(path: Path) -> None:
    path.write_text('{"version": 2, "images": [{"id": "sha256:1"}]}')


def _deep(path: Path) -> None:
    path.write_bytes(b'{"version": 1, "images": [' + b"[" * 200_000)


@asynccontextmanager
async def _started(root: Path) -> AsyncIterator[tuple[ImageComponents, Repairs, VirtualClock]]:
    """The image side of a start."""
    clock = VirtualClock()
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        components = await open_images(Settings(root=root, run=root / "run"), clock)
        repairs = Repairs(tasks, clock)
        components.recover((), ProtectedIds(), repairs)
        await repairs.wait_for_first_attempts(10)
        again = tasks.create_task(repairs.run())
        yield components, repairs, clock
        again.cancel()


@pytest.mark.root
@pytest.mark.parametrize("kind", [_fifo, _directory, _loop, _sparse, _newer, _deep])
async def test_index_that_cannot_be_used_is_set_aside_and_named_until_it_is_removed(
    tmp_path: Path, kind: Callable[[Path], None]
) -> None:
    root = tmp_path / "root"
    async with _started(root) as (components, repairs, _):
        assert components.images.list() == [] and repairs.unfinished() == []
    kind(root / "images/index.json")
    async with _started(root) as (components, repairs, clock):
        assert components.images.list() == []
        (left,) = repairs.unfinished()
        aside = root / "images/index.json.aside-1"
        assert (left.kind, left.id) == ("set aside", "images/index.json.aside-1")
        assert f"is kept as {aside}: remove it" in left.error
        aside.rename(tmp_path / "elsewhere")
        for _ in range(8):
            await clock.advance(1)
        assert repairs.unfinished() == []


@pytest.mark.root
async def test_image_that_cannot_be_used_is_named_with_what_to_do(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "images").mkdir(parents=True)
    bad = [{"id": "sha256:12", "tags": ["example.com/web:1"], "config": 5}, {"id": 7}]
    for image in bad:
        (root / "images/index.json").write_text(json.dumps({"version": 1, "images": [image]}))
        async with _started(root) as (components, repairs, _):
            found = {left.id: left.error for left in repairs.unfinished() if left.kind == "image"}
            assert components.images.list() == []
    assert json.loads((root / "images/index.json.quarantine").read_bytes()) == bad, "those of earlier starts are kept"
    assert list(found) == ["sha256:12", "number 2"]
    assert "pull example.com/web:1 again, then remove the file" in found["sha256:12"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("place", "kind"),
    [(place, kind) for place in ("", "blobs", "ingest") for kind in (_fifo, _loop)]
    + [
        (place, kind)
        for place in ("blobs/sha256", "blobs/sha256/BLOB", "ingest/unnamed-1", "ingest/sha256-12")
        for kind in (_fifo, _directory, _loop)
    ],
)
async def test_whatever_lies_in_the_place_of_blobs_images_are_opened(
    tmp_path: Path, place: str, kind: Callable[[Path], None]
) -> None:
    root = tmp_path / "root"
    async with _started(root) as (components, _, _):
        path = root / "images" / place.replace("BLOB", "a" * 64)
    if path.is_dir():
        path.rename(tmp_path / "away")
    kind(path)
    async with _started(root) as (components, repairs, _):
        assert [left.kind for left in repairs.unfinished()] == ["set aside"]
        await components.images.collect()
        store = ContentStore(root / "images")
        blob = store.add_stream((memoryview(b"x"),), 1)
        assert store.read(blob.digest, 1) == b"x" and components.images.list() == []


async def test_image_whose_blob_is_no_digest_is_not_used(tmp_path: Path, registry: FakeRegistry) -> None:
    """It would lead out of the store."""
    world = World(tmp_path)
    registry.add_image("team/app:1", [], [])
    image = await world.images.pull(f"{registry.host}/team/app:1")
    index = tmp_path / "images/index.json"
    index.write_bytes(index.read_bytes().replace(image.id.encode(), b"sha256:../../x"))
    assert ImageIndex(index).images == {}


async def test_blob_that_cannot_be_removed_keeps_no_other_nor_a_pull(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    blobs = [world.content.add_stream((memoryview(data),), 1).digest for data in (b"1", b"2", b"3")]
    remove = ContentStore.remove
    stuck = sorted(blobs)[0]

    def refuse(store: ContentStore, digest: str) -> None:
        if digest == stuck:
            raise PermissionError(1, "Operation not permitted", digest)
        remove(store, digest)

    monkeypatch.setattr(ContentStore, "remove", refuse)
    registry.add_image("team/app:1", [], [])
    image = await world.images.pull(f"{registry.host}/team/app:1")
    assert world.content.digests() == image.blobs | {stuck}
    monkeypatch.undo()
    await world.after_a_while()
    assert world.content.digests() == image.blobs


async def test_partial_blobs_that_cannot_be_listed_keep_no_blob_nor_a_pull(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    world = World(tmp_path)
    unwanted = world.content.add_stream((memoryview(b"1"),), 1).digest
    monkeypatch.setattr(ContentStore, "partial", fail)
    registry.add_image("team/app:1", [], [])
    image = await world.images.pull(f"{registry.host}/team/app:1")
    assert world.content.digests() == image.blobs and unwanted not in image.blobs


async def test_image_that_is_pulled_while_a_lost_one_is_removed_is_kept(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server serves while a slow repair goes on, and when one is made again."""
    registry.add_image("lost:1", LAYERS[:1], DIFFS[:1])
    registry.add_image("app:1", LAYERS[1:2], DIFFS[1:2])
    world = World(tmp_path)
    await world.images.pull(f"{registry.host}/lost:1")
    world.content.path(DIFFS[0]).unlink()
    begun, go_on = threading.Event(), threading.Event()

    def slowly(path: Path, data: bytes, *, durable: bool = False) -> None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(30)
        write_atomic(path, data, durable=durable)

    monkeypatch.setattr(index_module, "write_atomic", slowly)
    repair = asyncio.create_task(world.images.recover())
    await until(begun.is_set)
    pull = asyncio.create_task(world.images.pull(f"{registry.host}/app:1"))
    await until(lambda: world.content.has(DIFFS[1]))
    with held_calls():
        await settle()
    go_on.set()
    await repair
    app = await pull
    assert world.images.list() == [app]
    check(world, app)
