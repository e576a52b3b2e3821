"""One inotify instance for all who follow log files: the kernel allows a user only few instances, but many watches."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from asyncinotify import Inotify, Mask, Watch

from pykubelet.base.errors import Transient

_MASK: Final = (
    Mask.MODIFY | Mask.CREATE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE | Mask.DELETE_SELF | Mask.ONLYDIR
)


class DirWatcher:
    """Sets an event for each change in a folder. ``run`` has to be running meanwhile."""

    def __init__(self) -> None:
        self._inotify = Inotify()
        self._waiting: dict[Watch, set[asyncio.Event]] = {}

    async def run(self) -> None:
        """Hand out events until cancelled."""
        with self._inotify:
            async for event in self._inotify:
                watches = [event.watch] if event.watch is not None else list(self._waiting)
                for watch in watches:
                    for waiting in self._waiting.get(watch, ()):
                        waiting.set()

    @contextmanager
    def watch(self, path: str) -> Iterator[asyncio.Event]:
        """An event that is set at each change in the folder within the block; the waiter clears it.

        Raises Transient when the machine's limit of watches is reached.
        """
        try:
            # The kernel gives the same watch again for the same folder, so followers share it.
            watch = self._inotify.add_watch(path, _MASK)
        except OSError as error:
            raise Transient(
                f"cannot watch {path}: {error.strerror}; see the sysctl fs.inotify.max_user_watches"
            ) from error
        changed = asyncio.Event()
        self._waiting.setdefault(watch, set()).add(changed)
        try:
            yield changed
        finally:
            others = self._waiting[watch]
            others.discard(changed)
            if not others:
                del self._waiting[watch]
                with suppress(OSError, ValueError, KeyError):
                    self._inotify.rm_watch(watch)
