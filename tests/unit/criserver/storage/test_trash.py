"""The trash on real directories: a removal takes no time, and everything is deleted in the end, also after a crash."""

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from pykubelet.base import proc
from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.storage import Layers, Snapshots, trash
from pykubelet.criserver.storage.plan.pace import CALM, HURRIED, PRESSED, DeletionPace, pace
from pykubelet.criserver.storage.remove import removal_steps
from pykubelet.criserver.storage.trash import Trash, TrashUsage
from pykubelet.linux.filesystems.mountinfo import mounts_below
from pykubelet.testing.blocking_calls import blocking_calls
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import settle, until

_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
_GIB = 1 << 30


def _open(tmp_path: Path, clock: Clock | None = None) -> Trash:
    """As the next server opens it."""
    made = Trash(tmp_path / "trash", clock or SystemClock())
    made.load()
    return made


@asynccontextmanager
async def _running(opened: Trash) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(opened.run(), name="trash")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _tree(top: Path, files: int = 5) -> Path:
    (top / "sub/deeper").mkdir(parents=True)
    for number in range(files):
        (top / "sub/deeper" / str(number)).touch()
    return top


def _is_empty(tmp_path: Path) -> bool:
    return list((tmp_path / "trash").iterdir()) == []


async def test_tree_in_the_trash_is_gone_from_its_place_at_once_and_deleted_later(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("precious")
    opened, top = _open(tmp_path), _tree(tmp_path / "layer")
    (top / "link").symlink_to(tmp_path)
    async with _running(opened):
        assert opened.take(top)
        assert not top.exists() and not _is_empty(tmp_path)
        opened.wake()
        await until(lambda: _is_empty(tmp_path))
    assert not opened.take(top), "it is not there any more"
    assert (tmp_path / "outside").read_text() == "precious"


async def test_trash_is_read_once_for_a_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[list[str]] = []
    names = Trash._names

    def read(self: Trash) -> list[str]:
        reads.append(names(self))
        return reads[-1]

    monkeypatch.setattr(Trash, "_names", read)
    opened = _open(tmp_path)
    async with _running(opened):
        for count in range(1, 4):
            opened.take(_tree(tmp_path / f"layer-{count}"))
            opened.wake()
            await until(lambda: _is_empty(tmp_path))
            await settle()
    assert [[name.partition(".")[0] for name in read] for read in reads if read] == [
        ["layer-1"],
        ["layer-2"],
        ["layer-3"],
    ]
    assert len(reads) <= 4, "the first one may find it empty"


async def test_deletion_waits_until_the_removals_of_the_moment_have_ended(tmp_path: Path) -> None:
    clock = VirtualClock()
    opened = _open(tmp_path, clock)
    async with _running(opened):
        await clock.settle()
        with blocking_calls() as calls:
            for number in range(3):
                opened.take(_tree(tmp_path / f"layer-{number}"))
                opened.wake()
                await clock.advance(0.1)
            assert calls == [] and len(list(opened.directory.iterdir())) == 3
            await clock.advance(0.5)
            await until(lambda: _is_empty(tmp_path))
        assert calls == ["Trash._names", *["Trash._delete_small"] * 3]


async def test_deletion_begins_at_once_if_a_removal_waits_for_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    opened = _open(tmp_path, clock)
    async with _running(opened):
        await clock.settle()
        opened.take(_tree(tmp_path / "layer"))
        opened.wake()
        await clock.settle()
        assert not _is_empty(tmp_path)
        await opened.make_room(always=True)
        assert _is_empty(tmp_path)


def _hostile(top: Path) -> None:
    """A tree deeper than any path is long, with links, odd names and odd kinds of files."""
    top.mkdir()
    (top.parent / "outside").mkdir()
    (top.parent / "outside/file").write_text("precious")
    here = os.open(top, os.O_RDONLY)
    for number in range(150):
        os.mkdir("d" * 200, dir_fd=here)
        os.symlink(top.parent / "outside", "link", dir_fd=here)
        os.mkfifo("fifo", dir_fd=here)
        os.mkdir(b"\xff\n", dir_fd=here)
        os.close(os.open(f".removed-{number}", os.O_CREAT, dir_fd=here))
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


async def test_hostile_tree_is_deleted_by_workers_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trash, "_SLICE", 0.1)
    monkeypatch.setattr(trash, "_pace", lambda path: DeletionPace(niceness=1, rest=0.1))
    opened = _open(tmp_path)
    _hostile(tmp_path / "layer")
    opened.take(tmp_path / "layer")
    async with _running(opened):
        await until(lambda: _is_empty(tmp_path), 300)
    assert (tmp_path / "outside/file").read_text() == "precious"


async def test_small_tree_is_deleted_between_the_slices_of_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash, "_SLICE", 0.0)  # each slice deletes 64 files
    opened, started = _open(tmp_path), list[Path]()

    def calm(path: Path) -> DeletionPace:
        started.append(path)
        return DeletionPace(niceness=1, rest=0.0)

    monkeypatch.setattr(trash, "_pace", calm)
    opened.take(_tree(tmp_path / "large", 6000))
    async with _running(opened):
        await until(lambda: started)
        opened.take(_tree(tmp_path / "small"))
        opened.wake()
        await until(lambda: not list((tmp_path / "trash").glob("small*")))
        assert not _is_empty(tmp_path)


@pytest.mark.parametrize("steps", [0, 1, 3, 8])
async def test_trash_that_a_crash_has_left_is_deleted_by_the_next_server(tmp_path: Path, steps: int) -> None:
    """At any moment: before the first file is deleted, or in the middle."""
    _open(tmp_path).take(_tree(tmp_path / "layer", 600))
    (left,) = (tmp_path / "trash").iterdir()
    begun = removal_steps(str(left))
    for _ in range(steps):
        next(begun)
    begun.close()
    assert left.exists()
    async with _running(_open(tmp_path)):
        await until(lambda: _is_empty(tmp_path))


async def test_killed_worker_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An out-of-memory kill, for example."""
    real, killed = proc.run, list[Sequence[str]]()

    async def run(argv: Sequence[str], *, timeout: float, check: bool) -> proc.CompletedProgram:
        if not killed:
            killed.append(argv)
            return proc.CompletedProgram(-9, b"", b"")
        return await real(argv, timeout=timeout, check=check)

    monkeypatch.setattr(proc, "run", run)
    opened = _open(tmp_path)
    opened.take(_tree(tmp_path / "layer", 3000))
    async with _running(opened):
        await until(lambda: _is_empty(tmp_path), 60)
    assert killed


@pytest.mark.root
async def test_removed_root_file_system_waits_in_the_trash(tmp_path: Path) -> None:
    layers = Layers(root=tmp_path, blob=lambda digest: tmp_path / digest)
    snapshots = Snapshots(tmp_path, layers)
    snapshots.load()
    image = ImageRecord("sha256:x", (), (), 0, ImageConfig(), (), "")
    _tree(await snapshots.prepare_rootfs(image, "c") / "written")
    await snapshots.remove_rootfs("c")
    assert snapshots.containers() == () and mounts_below(str(tmp_path)) == []
    assert [path.name for path in tmp_path.glob("trash/c.*/upper/written/sub/deeper/4")] == ["4"]
    async with _running(layers.trash):
        await until(lambda: _is_empty(tmp_path))


async def test_tree_that_cannot_be_deleted_keeps_no_other_and_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    opened = _open(tmp_path, clock)

    def refuse(path: str) -> Iterator[None]:
        if "/b." in path:
            raise PermissionError(errno.EPERM, "Operation not permitted", "stuck")
        yield from removal_steps(path)

    monkeypatch.setattr(trash, "removal_steps", refuse)
    for name in "abc":
        opened.take(_tree(tmp_path / name))
    async with _running(opened):
        await clock.settle()
        await until(opened.undeleted)
        (stuck,) = opened.undeleted()
        assert stuck.name.startswith("b.") and "not permitted" in stuck.error and stuck.since == clock.now()
        assert [record for record in caplog.records if getattr(record, "item", "") == stuck.name]
        await until(lambda: len(list(opened.directory.iterdir())) == 1)
        monkeypatch.undo()
        await until(lambda: clock.sleepers > 0)
        await clock.advance(5)
        await until(lambda: _is_empty(tmp_path) and not opened.undeleted())


@contextmanager
def _immutable(path: Path) -> Iterator[None]:
    def put(flag: int) -> None:
        with path.open("rb") as file:
            flags = int.from_bytes(fcntl.ioctl(file, _GET_FLAGS, bytes(8)), "little")
            fcntl.ioctl(file, _SET_FLAGS, (flags & ~_IMMUTABLE | flag).to_bytes(8, "little"))

    try:
        put(_IMMUTABLE)
    except OSError as error:
        pytest.skip(f"needs a file system with immutable files, and the right to make them: {error}")
    try:
        yield
    finally:
        put(0)


@pytest.mark.root
async def test_immutable_file_is_named_and_everything_beside_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash, "_SMALL", 1)  # a worker finds it
    opened, top = _open(tmp_path), _tree(tmp_path / "layer", 1000)
    (top / "sub/stuck").write_text("x")
    opened.take(top)
    (place,) = (tmp_path / "trash").iterdir()
    with _immutable(place / "sub/stuck"):
        async with _running(opened):
            await until(lambda: any("'stuck': Operation not permitted" in each.error for each in opened.undeleted()))
            assert [path.name for path in place.rglob("*") if path.is_file()] == ["stuck"]
    async with _running(_open(tmp_path)):
        await until(lambda: _is_empty(tmp_path))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EXDEV])
def test_tree_that_cannot_be_moved_is_deleted_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(path: Path, target: Path) -> Path:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "rename", refuse)
    opened, top = _open(tmp_path), _tree(tmp_path / "layer")
    assert opened.take(top)
    assert not top.exists() and _is_empty(tmp_path)


def test_server_without_a_trash_directory_starts_and_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    top = _tree(tmp_path / "layer")
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert _open(tmp_path).take(top)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link", "odd name"])
async def test_whatever_is_moved_to_the_trash_is_deleted(tmp_path: Path, kind: str) -> None:
    opened = _open(tmp_path)
    place = tmp_path / (os.fsdecode(b"-\xff\n" + b"x" * 250) if kind == "odd name" else kind)
    if kind == "link":
        place.symlink_to(tmp_path)
    else:
        place.touch()
    opened.take(place)
    async with _running(opened):
        await until(lambda: _is_empty(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["trash"]


async def test_usage_is_what_the_waiting_trees_take(tmp_path: Path) -> None:
    opened, top = _open(tmp_path), _tree(tmp_path / "layer")
    assert await opened.usage() == TrashUsage()
    (top / "data").write_bytes(b"x" * 1_000_000)
    opened.take(top)
    found = await opened.usage()
    assert found.trees == 1 and found.bytes >= 1_000_000 and found.inodes >= 9
    async with _running(opened):
        await until(lambda: _is_empty(tmp_path))
    assert await opened.usage() == TrashUsage(), "no stale count"


@pytest.mark.parametrize(
    ("available", "inodes", "inodes_free", "expected"),
    [
        (50 * _GIB, 1000, 900, CALM),
        (19 * _GIB, 1000, 900, HURRIED),
        (50 * _GIB, 1000, 99, HURRIED),
        (14 * _GIB, 1000, 900, PRESSED),
        (50 * _GIB, 1000, 49, PRESSED),
        (50 * _GIB, 0, 0, CALM),  # a file system that creates inodes as it needs them
    ],
)
def test_trash_is_deleted_at_full_speed_before_kubelets_evict_pods_for_its_space(
    available: int, inodes: int, inodes_free: int, expected: DeletionPace
) -> None:
    assert pace(Bytes(100 * _GIB), Bytes(available), inodes, inodes_free) == expected
    assert CALM.niceness > HURRIED.niceness and CALM.rest > HURRIED.rest
    assert PRESSED.wait > HURRIED.wait == CALM.wait == 0


@pytest.mark.parametrize("chosen", [CALM, DeletionPace(niceness=0, rest=0.0, wait=300.0)])
async def test_removal_waits_for_the_deletion_only_if_space_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: DeletionPace
) -> None:
    monkeypatch.setattr(trash, "_pace", lambda path: chosen)
    monkeypatch.setattr(trash, "_SMALL", 0)
    opened = _open(tmp_path)
    async with _running(opened):
        await until(lambda: opened._round)
        opened.take(_tree(tmp_path / "layer", 1000))
        opened.wake()
        await opened.make_room()
        assert _is_empty(tmp_path) == (chosen.wait > 0)


async def test_removal_that_is_made_for_the_space_waits_and_hurries_whatever_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet removes images for their space, above thresholds of its own that are unknown here."""
    monkeypatch.setattr(trash, "_pace", lambda path: CALM)
    monkeypatch.setattr(trash, "_SMALL", 0)
    paces: list[DeletionPace] = []
    run_worker = Trash._run_worker

    async def noted(opened: Trash, name: str, chosen: DeletionPace) -> bool:
        paces.append(chosen)
        return await run_worker(opened, name, chosen)

    carry_on = Trash._continue

    async def once_it_is_awaited(opened: Trash, name: str) -> None:
        if not paces:
            await until(lambda: opened._awaited)
        await carry_on(opened, name)

    monkeypatch.setattr(Trash, "_run_worker", noted)
    monkeypatch.setattr(Trash, "_continue", once_it_is_awaited)
    opened = _open(tmp_path)
    async with _running(opened):
        await until(lambda: opened._round)
        opened.take(_tree(tmp_path / "layer", 1000))
        opened.wake()
        await opened.make_room(always=True)
        assert _is_empty(tmp_path)
        opened.take(_tree(tmp_path / "layer", 1000))
        opened.wake()
        await until(lambda: _is_empty(tmp_path))
    assert paces == [HURRIED, CALM], "only what a removal waits for is deleted at full speed"


async def test_removal_that_is_made_for_the_space_does_not_ask_how_much_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def unknown(path: Path) -> DeletionPace:
        asked.append(path)
        raise OSError(errno.EIO, "statfs")

    begin = Trash._begin

    async def once_it_is_awaited(opened: Trash, name: str) -> None:
        await until(lambda: opened._awaited)
        await begin(opened, name)

    monkeypatch.setattr(trash, "_pace", unknown)
    monkeypatch.setattr(Trash, "_begin", once_it_is_awaited)
    opened = _open(tmp_path)
    async with _running(opened):
        await until(lambda: opened._round)
        opened.take(_tree(tmp_path / "layer"))
        opened.wake()
        await opened.make_room(always=True)
        assert _is_empty(tmp_path)
    assert asked == []


async def test_removals_wait_once_for_trash_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = VirtualClock(), list[Path]()

    def pressed(path: Path) -> DeletionPace:
        asked.append(path)
        return DeletionPace(niceness=0, rest=0.0, wait=0.05)

    async def hang(opened: Trash, name: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(trash, "_pace", pressed)
    monkeypatch.setattr(Trash, "_begin", hang)
    opened = _open(tmp_path, clock)
    opened.take(_tree(tmp_path / "layer"))
    await opened.make_room()  # no loop runs that could delete it
    async with _running(opened):
        await until(lambda: opened._round)
        for _ in range(5):
            await opened.make_room()
        assert len(asked) == 2, "only the first has waited"
        await clock.advance(61)
        await opened.make_room()
        assert len(asked) == 3
    assert not _is_empty(tmp_path)


async def test_unreadable_trash_keeps_no_removal_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trash, "_pace", lambda path: DeletionPace(niceness=0, rest=0.0, wait=5.0))
    opened = _open(tmp_path)
    read, lists = opened._names, list[list[str]]()

    def noted() -> list[str]:
        lists.append(read())
        return lists[-1]

    monkeypatch.setattr(opened, "_names", noted)
    async with _running(opened):
        await until(lambda: lists)
        opened.directory.rmdir()
        opened.directory.touch()
        await opened.make_room()
        with pytest.raises(PykubeletError, match="cannot read the trash"):
            await opened.usage()
