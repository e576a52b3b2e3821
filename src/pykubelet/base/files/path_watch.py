"""Watches files and directories by inotify, and notices when their paths lead elsewhere.

A watch of inotify stays with the directory that it was made for. When a symbolic link on the way is replaced, or a
parent directory is renamed, it says nothing of the directory to which the path leads then. Therefore the links are
watched as well, and the places of directories that are missing. Renamed parents are found by a look once a minute.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.files.links import PathEntry, entries_to
from pykubelet.base.units import Seconds

if TYPE_CHECKING:
    from asyncinotify import Event, Mask

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

LOOK_SECONDS: Final[Seconds] = 60.0
"""Interval of the looks at where the paths lead."""

_Ways = Mapping[Path, tuple[PathEntry, ...]]


class PathChange(Struct, frozen=True):
    """A change of a watched file, of an entry of a watched directory, or of where a path leads."""

    mask: int = 0
    """Of inotify's event."""
    path: Path | None = None
    """The entry that has changed, or a directory that has ended; None: no single one."""
    name: str = ""
    """The name of the entry."""
    file: Path | None = None
    """The file that was asked for, if the entry is what it leads to."""
    elsewhere: bool = False
    """A path leads elsewhere, or changes were missed: leave the watch, and make another."""


class PathWatch:
    """An inotify instance for some paths: a context, whose ``next`` one task at a time awaits."""

    def __init__(
        self, owner: str, mask: "Mask", *, files: Iterable[Path] = (), directories: Iterable[Path] = ()
    ) -> None:
        """``owner``: see ``base/concurrency/blocking.py``; ``mask``: the events of interest."""
        self._owner = owner
        self._mask = mask
        self._files = tuple(files)
        self._directories = tuple(directories)
        self._settled = False
        self._pending: asyncio.Task[Event] | None = None

    async def __aenter__(self) -> Self:
        """Watch what exists of the paths. Raises Transient if that is not possible for now."""
        from asyncinotify import Inotify, Mask  # costs memory only where something is watched

        self._new = Mask.CREATE | Mask.MOVED_TO
        self._over = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED | Mask.Q_OVERFLOW
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise Transient(f"no inotify: {error.strerror}; is fs.inotify.max_user_instances too low?") from error
        try:
            always = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR | Mask.MASK_ADD
            await self._call(self._begin, always, self._new | Mask.MOVED_FROM | Mask.DELETE)
        except BaseException:
            self._inotify.close()
            raise
        self._look_at = asyncio.get_running_loop().time() + LOOK_SECONDS
        return self

    def _begin(self, always: "Mask", replaced: "Mask") -> None:
        """Watch what exists of the paths. Blocks, also in the kernel's search for a directory that is to be watched."""
        watch = self._inotify.add_watch  # a directory that is watched keeps its watch, with the events of both
        self._ways = _ways_to(self._files, self._directories)
        entries = [entry for way in self._ways.values() for entry in way if entry.decides]
        ends = {file: way[-1] for file in self._files if (way := self._ways[file]) and not way[-1].decides}
        self._deciding = {(watch(entry.path.parent, always | replaced), entry.path.name) for entry in entries}
        self._ends = {(watch(end.path.parent, always | self._mask), end.path.name): file for file, end in ends.items()}
        self._whole = {
            watch(directory, always | self._mask)
            for directory in self._directories
            if not any(entry.decides and not entry.is_link for entry in self._ways[directory])
        }

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._pending is not None:
                self._pending.cancel()
                await asyncio.wait((self._pending,))
        finally:
            self._inotify.close()

    @property
    def through_links(self) -> bool:
        """Whether a symbolic link is on the way to a path."""
        return any(entry.is_link for way in self._ways.values() for entry in way)

    @property
    def lacks_directory(self) -> bool:
        """Whether a directory was missing."""
        return any(entry.decides and not entry.is_link for way in self._ways.values() for entry in way)

    async def next(self) -> PathChange:
        """Wait for the next change. After one that leads elsewhere, nothing reliable follows."""
        if not self._settled:
            self._settled = True
            if await self._leads_elsewhere():
                return PathChange(elsewhere=True)
        while True:
            event = await self._event()
            if event is None:
                if await self._leads_elsewhere(moved=True):
                    return PathChange(elsewhere=True)
                self._look_at = asyncio.get_running_loop().time() + LOOK_SECONDS
                continue
            change = self._change(event)
            if change is None:
                continue
            replaced = change.file is not None and change.mask & self._new
            if replaced and await self._leads_elsewhere():  # the file has become a link
                return replace(change, elsewhere=True)
            return change

    def _change(self, event: "Event") -> PathChange | None:
        watch, name = event.watch, str(event.name) if event.name else ""
        if watch is None or event.mask & self._over:
            return PathChange(event.mask, watch.path if watch is not None else None, elsewhere=True)
        key = (watch, name)
        file = self._ends.get(key)
        if file is None and key not in self._deciding and watch not in self._whole:
            return None
        return PathChange(event.mask, watch.path / name, name, file, key in self._deciding)

    async def _event(self) -> "Event | None":
        """Return the next event; None: a look is due, whether or not there are events."""
        time = asyncio.get_running_loop().time
        if self._pending is None:
            self._pending = asyncio.create_task(self._inotify.get(), name="inotify")
        await asyncio.wait((self._pending,), timeout=max(self._look_at - time(), 0.0))
        if time() >= self._look_at or not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return await pending

    async def _leads_elsewhere(self, *, moved: bool = False) -> bool:
        """Whether the ways have changed; ``moved``: or a directory was replaced.

        Some file systems give a directory another inode now and then: this costs another watch at each look.
        """
        try:
            ways = await self._call(_ways_to, self._files, self._directories)
        except Transient:
            return True
        return ways != self._ways if moved else _names(ways) != _names(self._ways)

    async def _call(self, function: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
        try:
            return await blocking.call(self._owner, function, *args)
        except OSError as error:
            hint = "; is fs.inotify.max_user_watches too low?" if error.errno == errno.ENOSPC else ""
            raise Transient(f"{error.filename}: cannot be watched: {error.strerror}{hint}") from error


def _ways_to(files: Iterable[Path], directories: Iterable[Path]) -> _Ways:
    return {path: entries_to(path) for path in files} | {path: entries_to(path, directory=True) for path in directories}


def _names(ways: _Ways) -> list[list[Path]]:
    return [[entry.path for entry in way] for way in ways.values()]
