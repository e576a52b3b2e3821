"""Arbitrary files in place of the server's own: it opens its store and directories, and loses no valid copy."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.base.clock import SystemClock
from pykubelet.criserver.compose.images import open_images
from pykubelet.criserver.config import Settings
from pykubelet.criserver.conmon import read_exit
from pykubelet.criserver.conmon.find_and_kill import retire_commands
from pykubelet.criserver.directories import lock_directory, make_directory, make_traversable
from pykubelet.criserver.embedded import note_of, read_note, write_note
from pykubelet.criserver.programs import new_marks
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.types import ContainerID, ProcessRef, SandboxID, SandboxRecord

_RECORD = SandboxRecord(SandboxID("s1"), "web_default_u1_0", "runc", b"", 1)
_FILES = (
    *("root/state.db", "root/state.db-wal", "root/state.db-shm", "root/records", "root/records/sandboxes"),
    *("root/records/sandboxes/s1.json", "root/records/sandboxes/s2.json", "root/records/containers", "root/lock"),
    *("run/lock", "run/server.json", "run/marks", "run/bundles", "run/exits", "run/exits/c1", "run/tmp", "run/tmp.old"),
    *("root/images", "root/images/index.json", "root/images/blobs/sha256", "root/images/ingest/unnamed-1"),
    *("root/images/index.json.quarantine", "root/storage", "root/storage/layers", "root/storage/layers/0"),
    *("root/storage/layers/1", "root/storage/meta/sha256-12.json", "root/storage/merge/1", "root/storage/containers"),
    *("root/storage/containers/c1", "root/storage/containers/-", "root/storage/containers/c1/rootfs.json"),
)


def _fifo(path: Path, _: bytes) -> None:
    os.mkfifo(path)


def _directory(path: Path, _: bytes) -> None:
    (path / "below").mkdir(parents=True)


def _file(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _sparse(path: Path, _: bytes) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _loop(path: Path, _: bytes) -> None:
    path.symlink_to(path.name)


def _device(path: Path, _: bytes) -> None:
    path.symlink_to("/dev/zero")


def _nothing(path: Path, _: bytes) -> None:
    assert not os.path.lexists(path)


_KINDS: tuple[Callable[[Path, bytes], None], ...] = (_fifo, _directory, _file, _sparse, _loop, _device, _nothing)
_DAMAGE = st.tuples(st.sampled_from(_FILES), st.sampled_from(_KINDS), st.binary(max_size=200))


def _damage(path: Path, kind: Callable[[Path, bytes], None], data: bytes) -> None:
    if not path.parent.is_dir():
        return
    if path.is_symlink() or path.is_file() or path.is_fifo():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    kind(path, data)


async def _start(settings: Settings) -> list[SandboxRecord]:
    """Open the server's own files as its start does, before the recovery of containers."""
    for directory, way in ((settings.root, settings.root_filesystems), (settings.run, settings.sandboxes)):
        make_traversable(directory, way)
        os.close(lock_directory(directory))
    note = note_of(settings, ProcessRef(1, 2), True)
    write_note(settings.run, note)
    assert read_note(settings.run) == note
    retire_commands(settings.scratch, SystemClock().monotonic, 3.0)
    for directory in (settings.bundles, settings.exits, settings.scratch):
        make_directory(directory)
        assert directory.is_dir()
    assert new_marks(settings.run, settings.scratch).own
    read_exit(settings.exits, settings.bundles, ContainerID("c1"))
    images = await open_images(settings, SystemClock())
    assert images.images.list() == []
    await images.images.collect()
    await images.layers.clean()
    assert images.layers.leftovers() == ()
    store = await Store.open(settings.database)
    try:
        sandboxes, _ = await store.load()
        return sandboxes
    finally:
        await store.close()


@settings(max_examples=max(10, settings.default.max_examples // 4))  # type: ignore[union-attr]  # one is registered
@given(st.lists(_DAMAGE, max_size=5))
@example([("run/bundles", _loop, b"")])
@example([("root/state.db", _sparse, b""), ("root/records/sandboxes/s1.json", _fifo, b"")])
def test_start_succeeds_with_any_files_in_place_of_its_own(
    damage: list[tuple[str, Callable[[Path, bytes], None], bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        server = Settings(root=directory / "root", run=directory / "run")
        for each in (server.root, server.run):
            each.mkdir()

        async def work() -> None:
            async with asyncio.timeout(10):
                await _start(server)
                store = await Store.open(server.database)
                await store.sandboxes.add(_RECORD)
                await store.close()
                for path, kind, data in damage:
                    _damage(directory / path, kind, data)
                sandboxes = await _start(server)
                files = {path for path, _, _ in damage}
                if not any(path.startswith("root/records") for path in files) or not any("state" in p for p in files):
                    assert sandboxes == [_RECORD]
                assert await _start(server) == sandboxes, "the next start finds another state"

        asyncio.run(work())
