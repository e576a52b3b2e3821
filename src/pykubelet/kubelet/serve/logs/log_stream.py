"""Sends a container's log to a client: the present content and, with ``follow``, what is appended.

Following waits for inotify events on the directory and for changes of the pod's status; it does not poll. It continues
through log rotations and container restarts, and ends when the container cannot write any more.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.broadcast import Subscription
from pykubelet.base.concurrency.watch_table import Change
from pykubelet.base.errors import NotFound
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_types import LogOptions
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.kubelet.serve.logs.log_files import LogDirectory, LogFile
from pykubelet.kubelet.serve.logs.plan.lines import LineWriter
from pykubelet.kubelet.serve.logs.plan.log_choice import may_write_more
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod

Write = Callable[[bytes], Awaitable[None]]


class LogTarget(Struct, frozen=True):
    """The container whose log is read."""

    uid: PodUID
    container: str
    directory: LogDirectory

    @property
    def owner(self) -> str:
        """The owner (see ``base/concurrency/blocking.py``) whose threads read the log."""
        return f"pod/{self.uid}/logs"


class LogSession:
    """Reads one log for one client. The methods block; they are called in threads, one at a time."""

    def __init__(self, target: LogTarget, options: LogOptions) -> None:
        self._target = target
        self._follow = options.follow and not options.previous
        self._tail = options.tail_lines
        self._writer = LineWriter(options)
        self._file: LogFile | None = None
        self._attempt = 0
        self._successor: int | None = None
        self._pending = b""

    @property
    def owner(self) -> str:
        """The owner whose threads run the methods."""
        return self._target.owner

    @property
    def follow(self) -> bool:
        return self._follow

    @property
    def full(self) -> bool:
        """Whether the client's byte limit is reached."""
        return self._writer.full

    def open(self, attempt: int) -> None:
        """Open an attempt's file, at its beginning or its last lines. NotFound, Invalid.

        Without ``follow`` the log ends where the file ends now.
        """
        self._attempt = attempt
        self._file = self._target.directory.open(attempt)
        if not self._follow:
            self._file.end_here()
        if self._tail is not None:
            self._file.seek_tail(self._tail)

    def advance(self) -> bytes | None:
        """Return the next bytes for the client, possibly empty; None at the present end of all files."""
        assert self._file is not None, "open comes first"
        while True:
            records = self._file.read()
            if records:
                return self._take_pending() + self._writer.feed(records)
            if not self._follow or not self._next_file():
                return self._take_pending() or None

    def finish(self) -> bytes:
        """Return the lines that are unfinished at the end."""
        return self._take_pending() + self._writer.flush()

    def close(self) -> None:
        """Close the log file. Idempotent."""
        if self._file is not None:
            self._file.close()

    def _next_file(self) -> bool:
        """Switch to the next file if there is one; return whether to read on.

        A file that has a successor is first read to its end again, since it may have grown until the successor was
        created.
        """
        assert self._file is not None
        if self._successor is None:
            self._successor = self._find_successor(self._file)
            return self._successor is not None
        successor, self._successor = self._successor, None
        try:
            file = self._target.directory.open(successor)
        except NotFound:
            return False
        self._file.close()
        self._file = file
        if successor != self._attempt:
            self._pending += self._writer.flush()
        self._attempt = successor
        return True

    def _find_successor(self, file: LogFile) -> int | None:
        if self._target.directory.is_rotated(self._attempt, file):
            return self._attempt
        newer = [n for n in self._target.directory.attempts() if n > self._attempt]
        return min(newer) if newer else None

    def _take_pending(self) -> bytes:
        data, self._pending = self._pending, b""
        return data


async def copy_log(session: LogSession, target: LogTarget, pods: PodsView, watcher: DirWatcher, write: Write) -> None:
    """Write an opened session's log to the client; with ``follow`` until the container cannot write any more."""
    if not session.follow:
        await _drain(session, write)
        await write(session.finish())
        return
    with target.directory.opened() as path, watcher.watch(path) as changed, pods.table.subscribe() as changes:
        async with asyncio.TaskGroup() as group:
            waker = group.create_task(_wake(changes, target.uid, changed), name="log-follow-wake")
            await _follow(session, target, pods, changed, write)
            waker.cancel()


async def _follow(session: LogSession, target: LogTarget, pods: PodsView, changed: asyncio.Event, write: Write) -> None:
    while True:
        changed.clear()
        # Checked before reading, so that everything written before the container ended is read.
        may_grow = may_write_more(pods.get(target.uid), target.container)
        await _drain(session, write)
        if session.full:
            return
        if not may_grow:
            await write(session.finish())
            return
        await changed.wait()


async def _drain(session: LogSession, write: Write) -> None:
    while not session.full:
        data = await blocking.call_to_end(session.owner, session.advance)
        if data is None:
            return
        if data:
            await write(data)


async def _wake(changes: Subscription[str, Change[Pod]], uid: PodUID, changed: asyncio.Event) -> None:
    while True:
        if any(change.key == uid for change in await changes.take()):
            changed.set()
