"""Damaged layers and leftovers that a start finds do not affect other layers, and are removed in the background."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.storage import Layers, Snapshots, layers
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.storage.trash import Trash
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.storage.world import World, entry

pytestmark = pytest.mark.root


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "world"
    root.mkdir()
    return World(root)


def _again(world: World, clock: VirtualClock | None = None) -> tuple[Layers, Snapshots]:
    """As the next server opens them."""
    again = Layers(root=world.root / "storage", blob=lambda digest: world.blobs / digest[7:], clock=clock)
    snapshots = Snapshots(world.root / "storage", again)
    snapshots.load()
    return again, snapshots


def _refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    take = Trash.take

    def refuse(path: str | Path) -> None:
        if Path(path).name.startswith(names):
            raise PermissionError(1, "Operation not permitted", path)

    def remove(path: str) -> None:
        refuse(path)
        remove_any(path)

    def throw_away(trash: Trash, path: Path) -> bool:
        refuse(path)
        return take(trash, path)

    monkeypatch.setattr(layers, "remove_any", remove)
    monkeypatch.setattr(Trash, "take", throw_away)


async def test_worker_of_the_last_server_that_goes_on_is_left_alone_and_keeps_no_start(world: World) -> None:
    """It may hang in the kernel."""
    directory = world.layers.directory / "7"
    directory.mkdir()
    worker = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(worker, fcntl.LOCK_SH)
        again, _ = _again(world)
        assert again.leftovers() == (directory,)
        with pytest.raises(Transient, match="still unpacks layer"):
            await again.remove_leftover(directory)
        world.add(b"".ljust(10240, b"\0"))
        assert (await again.ensure(world.stack)).directory == 8, "it gets the worker's directory"
        assert directory.exists()
    finally:
        os.close(worker)
    await again.clean()
    assert again.leftovers() == () and not directory.exists()


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path) -> None:
    (path / "below").mkdir(parents=True)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


_KINDS = (_fifo, _directory, _loop, Path.touch)
_PLACES = (
    *("layers", "meta", "merge", "layers/0", "layers/1", "layers/2", "layers/x", "meta/RECORD", "meta/5", "merge/1"),
    *("merge/x", "containers", "containers/c1", "containers/-odd name", "containers/c1/rootfs.json"),
)


@pytest.mark.parametrize(
    ("place", "kind"),
    # A directory with other content in a layer's place cannot be known from the layer.
    [(place, kind) for place in _PLACES for kind in _KINDS if (place, kind) != ("layers/1", _directory)],
)
async def test_whatever_lies_in_the_place_of_layers_they_are_loaded_and_unpacked(
    world: World, place: str, kind: Callable[[Path], None]
) -> None:
    await world.unpack([entry("a", data=b"a")])
    record = next((world.root / "storage/meta").iterdir())
    path = world.root / "storage" / place.replace("RECORD", record.name)
    remove_any(str(path))
    path.parent.mkdir(exist_ok=True)
    kind(path)
    again, snapshots = _again(world)
    for left in snapshots.leftovers():
        await snapshots.remove_leftover(left)
    for name in snapshots.containers():
        await snapshots.remove_rootfs(name)
    await again.clean()
    assert again.leftovers() == snapshots.leftovers() == ()
    assert snapshots.containers() == ()
    meta = await again.ensure(world.stack)
    assert (again.directory / str(meta.directory) / "a").read_bytes() == b"a"
    last, _ = _again(world)
    assert last.get(world.stack[0].chain_id) == meta
    assert last.leftovers() == ()


async def test_leftover_that_raises_keeps_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("2", "3", "4"):
        (world.layers.directory / name / "in").mkdir(parents=True)
    _refuse(monkeypatch, "3.gone")
    clock = VirtualClock()
    again, _ = _again(world, clock)
    await again.clean()
    assert [path.name for path in again.leftovers()] == ["3"]
    assert _names(again.directory) == ["0", "3.gone"]
    monkeypatch.undo()
    await clock.advance(10)
    await again.clean()
    assert again.leftovers() == () and _names(again.directory) == ["0"]


async def test_unwanted_layer_that_raises_keeps_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        await world.unpack([entry(name)])
    kept = world.stack[1].chain_id
    _refuse(monkeypatch, kept.replace(":", "-"))
    await world.layers.prune(())
    assert [layer.chain_id for layer in world.stack if world.layers.get(layer.chain_id)] == [kept]
    assert _names(world.layers.directory) == ["0", "2"]


async def test_half_removed_layer_never_passes_for_a_whole_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record may be back, or may never have been removed."""
    await world.unpack([entry("a")])
    record = next((world.root / "storage/meta").iterdir())
    content = record.read_bytes()
    _refuse(monkeypatch, "1.gone")
    await world.layers.prune(())
    record.write_bytes(content)
    again, _ = _again(world)
    assert again.get(world.stack[0].chain_id) is None
    meta = await again.ensure(world.stack)
    assert meta.directory == 2


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"directory": "'])
async def test_layer_of_a_container_is_kept_until_its_removal_although_its_record_is_damaged(
    world: World, damage: bytes
) -> None:
    directory = await world.unpack([entry("a", data=b"precious")])
    rootfs = await world.mount()
    try:
        (record,) = (world.root / "storage/meta").iterdir()
        record.write_bytes(damage)
        again, snapshots = _again(world)
        await again.clean()
        for path in (world.root / "storage/trash").iterdir():
            remove_any(str(path))
        assert (rootfs / "a").read_bytes() == b"precious"
        assert (await again.ensure(world.stack)).directory != int(directory.name)
        assert (rootfs / "a").read_bytes() == b"precious"
        await snapshots.remove_rootfs("c")
        assert not directory.exists() and again.leftovers() == ()
    finally:
        await world.snapshots.remove_rootfs("c")


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"image_id": "'])
@pytest.mark.parametrize("layers_too", [False, True], ids=["record", "all-records"])
async def test_layers_of_a_container_are_kept_although_the_record_of_its_files_is_damaged(
    world: World, damage: bytes, layers_too: bool
) -> None:
    """Its image may have been removed meanwhile: nothing else tells which layers are its own."""
    directory = await world.unpack([entry("a", data=b"precious")])
    other = world.layers.directory / "9"
    rootfs = await world.mount()
    try:
        other.mkdir()
        (world.root / "storage/containers/c/rootfs.json").write_bytes(damage)
        if layers_too:
            next((world.root / "storage/meta").iterdir()).write_bytes(damage)
        again, snapshots = _again(world)
        assert await snapshots.recover({"c"}) == {"c"}
        await snapshots.retain(())
        await again.clean()
        for path in (world.root / "storage/trash").iterdir():
            remove_any(str(path))
        assert (rootfs / "a").read_bytes() == b"precious" and other.exists()
        await snapshots.remove_rootfs("c")
        assert again.leftovers() == () and not directory.exists() and not other.exists()
        assert list((world.root / "storage/meta").iterdir()) == []
    finally:
        await world.snapshots.remove_rootfs("c")
