"""Watches of paths that lead elsewhere after a while, with the kernel's inotify."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncinotify
import pytest
from asyncinotify import Mask

from pykubelet.base.errors import Transient
from pykubelet.base.files import path_watch
from pykubelet.base.files.links import PathEntry, entries_to
from pykubelet.base.files.path_watch import PathChange, PathWatch
from pykubelet.testing.wait import settle, until

CHANGES = Mask.CREATE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CLOSE_WRITE


def point(link: Path, target: str) -> None:
    """Let a link lead to a target, in one step."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.rename(link)


def versions(top: Path) -> None:
    """Make directories ``1`` and ``2`` with a directory ``d`` and a file ``f`` in it."""
    for version in ("1", "2"):
        (top / version / "d").mkdir(parents=True)
        (top / version / "d" / "f").write_text(version)


class PathFollower:
    """Changes that the watch of a path reports; the watch is made again whenever the path leads elsewhere."""

    def __init__(self, make: Callable[[], PathWatch]) -> None:
        self.made = 0
        self.changes: list[PathChange] = []
        self._make = make

    async def run(self) -> None:
        while True:
            async with self._make() as watched:
                self.made += 1
                change = PathChange()
                while not change.elsewhere:
                    change = await watched.next()
                    self.changes.append(change)

    def names(self) -> set[str]:
        return {change.name for change in self.changes}


@asynccontextmanager
async def followed(make: Callable[[], PathWatch]) -> AsyncIterator[PathFollower]:
    """Follow a path, which is watched from the beginning of the block on."""
    seen = PathFollower(make)
    task = asyncio.create_task(seen.run(), name="followed")
    try:
        await until(lambda: seen.made)
        await settle()
        yield seen
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


def file_of(path: Path) -> Callable[[], PathWatch]:
    return lambda: PathWatch("test", CHANGES, files=[path])


def directory_of(path: Path) -> Callable[[], PathWatch]:
    return lambda: PathWatch("test", CHANGES, directories=[path])


@pytest.mark.parametrize(
    ("of", "links", "path", "moved"),
    [
        (directory_of, {"current": "1/d"}, "current", ("current", "2/d")),
        (file_of, {"current": "1/d"}, "current", ("current", "2/d")),
        (directory_of, {"current": "1"}, "current/d", ("current", "2")),
        (file_of, {"current": "v", "v": "1"}, "current/d", ("v", "2")),
        (directory_of, {"current": "v", "v": "1"}, "current/d", ("current", "2")),
        (file_of, {"v": "1", "1/l": "../v/d"}, "1/l", ("v", "2")),
    ],
)
async def test_path_whose_link_leads_elsewhere_is_followed(
    tmp_path: Path,
    of: Callable[[Path], Callable[[], PathWatch]],
    links: dict[str, str],
    path: str,
    moved: tuple[str, str],
) -> None:
    versions(tmp_path)
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    watched = tmp_path / path
    async with followed(of(watched if of is directory_of else watched / "f")) as seen:
        point(tmp_path / moved[0], moved[1])
        await until(lambda: seen.made == 2)
        assert [(change.name, change.elsewhere) for change in seen.changes] == [(moved[0], True)]
        await settle()
        (tmp_path / "2" / "d" / "f").write_text("3")
        await until(lambda: "f" in seen.names())
        assert seen.changes[-1].file == (watched / "f" if of is file_of else None)
        assert seen.made == 2 and seen.changes[-1].path == (
            watched / "f" if of is directory_of else tmp_path / "2" / "d" / "f"
        )


async def test_link_that_is_removed_and_made_again_is_followed(tmp_path: Path) -> None:
    versions(tmp_path)
    (tmp_path / "current").symlink_to("1")
    async with followed(directory_of(tmp_path / "current" / "d")) as seen:
        (tmp_path / "current").unlink()
        await until(lambda: seen.made == 2)
        await settle()
        (tmp_path / "current").symlink_to("2")
        await until(lambda: seen.made == 3)
        await settle()
        (tmp_path / "2" / "d" / "new").touch()
        await until(lambda: "new" in seen.names())


@pytest.mark.parametrize("of", [file_of, directory_of])
async def test_directory_that_comes_later_is_watched_then(
    tmp_path: Path, of: Callable[[Path], Callable[[], PathWatch]]
) -> None:
    async with followed(of(tmp_path / "a" / "b")) as seen:
        (tmp_path / "a").mkdir()
        await until(lambda: seen.made == 2)
        await settle()
        (tmp_path / "a" / "b").mkdir()
        await until(lambda: "b" in seen.names())
        assert seen.changes[-1].elsewhere is (of is directory_of)


async def test_file_that_becomes_a_link_is_followed(tmp_path: Path) -> None:
    versions(tmp_path)
    (tmp_path / "f").touch()
    async with followed(file_of(tmp_path / "f")) as seen:
        point(tmp_path / "f", "2/d/f")
        await until(lambda: seen.made == 2)
        await settle()
        (tmp_path / "2" / "d" / "f").write_text("3")
        await until(lambda: seen.changes[-1].path == tmp_path / "2" / "d" / "f")


async def test_other_entries_beside_links_and_files_are_not_reported(tmp_path: Path) -> None:
    versions(tmp_path)
    (tmp_path / "current").symlink_to("1")
    async with followed(file_of(tmp_path / "current" / "d" / "f")) as seen:
        for name in ("other", "current2"):
            (tmp_path / name).touch()
            (tmp_path / "1" / "d" / name).touch()
        (tmp_path / "1" / "d" / "f").write_text("3")
        await until(lambda: seen.changes)
        assert seen.names() == {"f"} and seen.made == 1


async def test_renamed_parent_directory_is_found_by_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions(tmp_path)
    monkeypatch.setattr(path_watch, "LOOK_SECONDS", 0.01)
    async with followed(directory_of(tmp_path / "1" / "d")) as seen:
        (tmp_path / "1").rename(tmp_path / "former")
        (tmp_path / "2").rename(tmp_path / "1")
        await until(lambda: seen.made == 2)
        await settle()
        (tmp_path / "1" / "d" / "new").touch()
        await until(lambda: "new" in seen.names())


async def test_look_comes_although_events_come_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions(tmp_path)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "current").symlink_to("../1/d")
    monkeypatch.setattr(path_watch, "LOOK_SECONDS", 1.0)
    async with followed(directory_of(tmp_path / "links" / "current")) as seen:
        (tmp_path / "1").rename(tmp_path / "former")
        (tmp_path / "2").rename(tmp_path / "1")

        def noticed() -> bool:
            (tmp_path / "links" / "other").touch()
            (tmp_path / "links" / "other").unlink()
            return seen.made == 2

        await until(noticed, 10.0)


async def test_link_that_changes_while_the_watch_is_made_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(tmp_path)
    (tmp_path / "current").symlink_to("1")

    def late(path: Path, *, directory: bool = False) -> tuple[PathEntry, ...]:
        """The link leads elsewhere as soon as it was looked at."""
        entries = entries_to(path, directory=directory)
        if (tmp_path / "current").readlink() == Path("1"):
            point(tmp_path / "current", "2")
        return entries

    monkeypatch.setattr(path_watch, "entries_to", late)
    async with PathWatch("test", CHANGES, directories=[tmp_path / "current"]) as watched:
        assert (await watched.next()).elsewhere


async def test_kernel_searches_for_directories_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for ever where a file system has ceased to respond, and the event loop with it."""
    threads = set[threading.Thread]()
    add_watch = asyncinotify.Inotify.add_watch

    def added(self: asyncinotify.Inotify, path: Path, mask: Mask) -> asyncinotify.Watch:
        threads.add(threading.current_thread())
        return add_watch(self, path, mask)

    monkeypatch.setattr(asyncinotify.Inotify, "add_watch", added)
    async with followed(directory_of(tmp_path)):
        assert threads and threading.main_thread() not in threads


async def test_directory_whose_inode_changes_for_no_reason_is_not_watched_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(10**6))

    def unstable(path: Path, *, directory: bool = False) -> tuple[PathEntry, ...]:
        return (PathEntry(path, (1, next(numbers)), is_link=False, decides=False),)

    monkeypatch.setattr(path_watch, "entries_to", unstable)
    async with followed(directory_of(tmp_path)) as seen:
        (tmp_path / "new").touch()
        await until(lambda: "new" in seen.names())
        assert seen.made == 1


async def test_path_that_cannot_be_watched_is_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Transient, match="file: cannot be watched: Not a directory"):
        async with PathWatch("test", CHANGES, directories=[tmp_path / "file"]):
            pass
    with pytest.raises(Transient, match="cannot be watched: File name too long"):
        async with PathWatch("test", CHANGES, files=[tmp_path / ("x" * 300)]):
            pass

    def exhausted(*_: object) -> None:
        raise OSError(28, "No space left on device", tmp_path)

    monkeypatch.setattr(asyncinotify.Inotify, "add_watch", exhausted)
    with pytest.raises(Transient, match=r"No space left on device; is fs\.inotify\.max_user_watches too low"):
        async with PathWatch("test", CHANGES, directories=[tmp_path]):
            pass

    def refused() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncinotify, "Inotify", refused)
    with pytest.raises(Transient, match="no inotify: Too many open files"):
        async with PathWatch("test", CHANGES, directories=[tmp_path]):
            pass
