"""Pulls that unpack what they fetch: layers that need those below, and layers of others."""

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.images.registry import RegistryClient
from pykubelet.criserver.storage import unpacking
from pykubelet.criserver.storage.layers import EMPTY
from pykubelet.testing.wait import nothing_within, settle, until
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.stores import Stores, import_file, open_stores
from tests.unit.criserver.storage.world import directory, entry, tar

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stores:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return open_stores(tmp_path / "root", RegistryClient(hosts=dict, clock=SystemClock()))


def _add(registry: FakeRegistry, name: str, *layers: bytes) -> str:
    registry.add_image(name, list(layers), [digest(layer) for layer in layers])
    return f"{registry.host}/{name}"


def _files(stores: Stores, image: ImageRecord) -> list[Path]:
    metas = [stores.layers.get(chain) for chain in image.layers]
    return [stores.layers.directory / str(meta.directory) for meta in metas if meta is not None]


async def test_layer_that_needs_one_below_waits_until_that_is_fetched(registry: FakeRegistry, stores: Stores) -> None:
    """As a layer does that has no entries for the directories of its files; small ones are often fetched first."""
    below, above = tar([directory("etc", 0o711)]), tar([entry("etc/own")])
    name = _add(registry, "app:1", below, above)
    registry.delay = {digest(below): 1.0}
    image = await stores.images.pull(name)
    assert (_files(stores, image)[1] / "etc").stat().st_mode & 0o777 == 0o711


async def test_layers_that_wait_for_one_below_take_little_memory(registry: FakeRegistry, stores: Stores) -> None:
    """A registry may send that one for days; 125,000 tasks of an image of 500 layers took 80 MB."""
    below, above = tar([directory("etc")]), tar([entry("etc/own")])
    name = _add(registry, "app:1", below, *[above] * 20)
    registry.gates = {digest(below): asyncio.Event()}
    pull = asyncio.create_task(stores.images.pull(name))
    await until(lambda: len(list(stores.layers.trash.directory.iterdir())) == 20)  # what they were unpacked to
    await settle()
    assert sum(isinstance(each, asyncio.Task) for each in gc.get_objects()) < 60
    pull.cancel()
    await asyncio.wait((pull,))
    registry.gates[digest(below)].set()
    await until(lambda: not registry._running)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[str, asyncio.Event]:
    """Layers, by their digests, whose workers take until the event is set."""
    events: dict[str, asyncio.Event] = {}
    run = unpacking._run_worker

    async def slow(what: str, *arguments: str, **options: Any) -> unpacking.Outcome:
        if what.removeprefix("layer ") in events:
            await events[what.removeprefix("layer ")].wait()
        return await run(what, *arguments, **options)

    monkeypatch.setattr(unpacking, "_run_worker", slow)
    return events


@pytest.mark.parametrize("lower", [False, True])
async def test_image_that_claims_layers_of_another_one_holds_up_no_pull_of_that(
    registry: FakeRegistry, other: FakeRegistry, stores: Stores, held: dict[str, asyncio.Event], lower: bool
) -> None:
    """Its configuration names the content of the other's layers, but its blobs unpack to something else, and slowly."""
    genuine = [tar([directory("etc")]), tar([entry("etc/own", data=b"genuine")])]
    forged = tar([entry("evil")])
    claimed = [digest(layer) for layer in genuine]
    blobs = [forged, genuine[1]] if lower else [forged]
    other.add_image("evil:1", blobs, claimed[: len(blobs)])
    held[digest(forged)] = asyncio.Event()
    evil = asyncio.create_task(stores.images.pull(f"{other.host}/evil:1"))
    await until(lambda: (stores.layers.directory / "1").exists() and stores.content.has(digest(forged)))
    await settle()
    async with asyncio.timeout(20):
        image = await stores.images.pull(_add(registry, "app:1", *genuine))
    assert (_files(stores, image)[1] / "etc/own").read_bytes() == b"genuine"
    held[digest(forged)].set()
    with pytest.raises(Invalid, match="its image says"):
        await evil


@pytest.mark.parametrize("way", ["pull", "import"])
async def test_image_of_many_slow_layers_holds_up_no_pull_for_long(
    registry: FakeRegistry,
    other: FakeRegistry,
    stores: Stores,
    held: dict[str, asyncio.Event],
    way: str,
    tmp_path: Path,
) -> None:
    """A layer of 2 MB may keep a worker busy for minutes, and be used 500 times in an image."""
    slow = tar([entry("evil")])
    other.add_image("evil:1", [slow] * 6, [digest(slow)] * 6)
    name = f"{other.host}/evil:1"
    if way == "import":
        (tmp_path / "evil.tar").write_bytes(await _exported(stores, name))
    held[digest(slow)] = asyncio.Event()
    evil = asyncio.create_task(_import(stores, tmp_path / "evil.tar") if way == "import" else stores.images.pull(name))
    await until(lambda: len(_numbers(stores)) == 3)
    pull = asyncio.create_task(stores.images.pull(_add(registry, "app:1", tar([entry("own")]))))
    await until(lambda: len(_numbers(stores)) == 3 + 1)
    await nothing_within(pull.done, 0.5)
    await stores.clock.advance(1)
    await pull
    held[digest(slow)].set()
    assert len((await evil).layers) == 6


def _numbers(stores: Stores) -> set[str]:
    """The layers that are, or are being, unpacked."""
    return {path.name for path in stores.layers.directory.iterdir()} - {EMPTY}


async def _exported(stores: Stores, name: str) -> bytes:
    """Pull an image, and remove it; its archive."""
    image = await stores.images.pull(name)
    pieces = [piece async for piece in stores.images.export_archive([name])]
    await stores.images.remove(image.id)
    await until(lambda: not _numbers(stores))
    return b"".join(pieces)


async def _import(stores: Stores, archive: Path) -> ImageRecord:
    (image,) = await import_file(stores, archive)
    return image
