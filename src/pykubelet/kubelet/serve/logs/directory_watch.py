"""Shares one inotify instance among all log followers: the kernel allows few instances per user, but many watches."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from asyncinotify import Inotify, Mask, Watch

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_MASK: Final = (
    Mask.MODIFY | Mask.CREATE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE | Mask.DELETE_SELF | Mask.ONLYDIR
)
_PAUSE: Final[Seconds] = 1.0


class DirWatcher:
    """Sets an event at each change in a watched directory, while ``run`` is running.

    The inotify instance is created for the first follower. Containers of root share the kernel's limit of instances
    with the agent and can exhaust it; then followers have to wait, and nothing else.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._inotify: Inotify | None = None
        self._made = asyncio.Event()
        self._guard = Guard("server.log-dirs", clock.monotonic)
        self._waiting: dict[Watch, set[asyncio.Event]] = {}

    async def run(self) -> None:
        """Dispatch events until cancelled."""
        try:
            while True:
                with self._guard.item("events"):
                    await self._hand_out(await self._instance())
                await self._clock.sleep(_PAUSE)
        finally:
            if self._inotify is not None:
                self._inotify.close()

    async def _instance(self) -> Inotify:
        await self._made.wait()
        assert self._inotify is not None, "it is created before the event is set"
        return self._inotify

    async def _hand_out(self, inotify: Inotify) -> None:
        async for event in inotify:
            watches = [event.watch] if event.watch is not None else list(self._waiting)
            for watch in watches:
                for waiting in self._waiting.get(watch, ()):
                    waiting.set()

    @contextmanager
    def watch(self, path: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change in the directory; the waiter clears it.

        Transient: the machine's limit of inotify instances or watches is reached.
        """
        if self._inotify is None:
            try:
                self._inotify = Inotify()
            except OSError as error:
                raise Transient(
                    f"cannot watch {path}: {error.strerror}; see the sysctl fs.inotify.max_user_instances"
                ) from error
            self._made.set()
        inotify = self._inotify
        try:
            # The kernel returns the same watch for the same directory, so followers share it.
            watch = inotify.add_watch(path, _MASK)
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
                    inotify.rm_watch(watch)
