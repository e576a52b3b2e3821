"""The trash: trees that are not used any more, such as writable layers, and are deleted in the background.

A container can write millions of files, whose deletion takes minutes. So a removal only renames the tree into this
directory, which is atomic and takes no time, and one loop deletes what is there: a small tree at once, a large one by a
worker process of low priority, in slices. The directory is the only state: what a crash leaves is deleted after the
next start. Until then its space is used.
"""

import asyncio
import json
import logging
import os
import re
import secrets
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.base import proc
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import MAXIMUM, Attempt, Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.files.decoding import convert
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.directories import set_aside_obstacle
from pykubelet.criserver.storage.plan.pace import HURRIED, LONGEST_WAIT, DeletionPace, pace
from pykubelet.criserver.storage.remove import removal_steps, remove_any
from pykubelet.criserver.storage.usage import UsageCounter
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems import fsusage

_log = logging.getLogger(__name__)
_WORKER: Final = "pykubelet.linux.filesystems.removal_worker"
_SMALL: Final = 16
"""Steps that a deletion in the server may take, of 64 entries each; a larger tree is deleted by a worker."""
_SLICE: Final[Seconds] = 10.0
"""Time of a worker's slice; between two, small trees that have come meanwhile are deleted."""
_PAUSE: Final[Seconds] = 0.5
"""Pause before a deletion, in which the removal goes on, and the next ones of the same pods."""
_RESPONDING: Final[Seconds] = 60.0
"""Deadline of a blocking call, and of a worker after its slice: missed only if the disk is not responding."""
_IN_VAIN: Final[Seconds] = 60.0
_MOST_NAME: Final = 160
_ALL: Final = "trash"
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")


class _Outcome(msgspec.Struct, frozen=True):
    """The output of the worker."""

    done: bool = False
    error: str = ""
    refused: bool = False


class TrashUsage(Struct, frozen=True):
    """Usage of the trees that wait for deletion; counted as far as that is possible within about a second."""

    trees: int = 0
    bytes: Bytes = Bytes(0)
    inodes: int = 0


class UndeletedTree(Struct, frozen=True):
    """A tree whose last deletion failed; it is retried. ``since``: Unix time of the first failure."""

    name: str
    error: str
    since: Seconds


class Trash:
    """The trash of one file system. Call ``load`` first; ``run`` deletes."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory: Final = directory
        self._clock = clock
        self._wakeup = Wakeup(clock)
        self._hurry = Wakeup(clock)
        self._guard = Guard("trash.trees", clock.monotonic)
        self._large: dict[str, None] = {}
        """The trees that a worker deletes, in the order of their next slices."""
        self._since: dict[str, Seconds] = {}
        """Time of the first failure of each failing tree."""
        self._counts = UsageCounter()
        self._in_vain_until: Seconds = 0.0
        self._awaited = 0
        """Number of removals that wait for the deletion."""
        self._round: asyncio.Event | None = None
        """Set when the current round of ``run`` has ended; None while it does not run."""

    def load(self) -> None:
        """Create the directory if that is possible. Blocks."""
        try:
            set_aside_obstacle(self.directory, directory=True)
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:  # the disk may be full; then trees are deleted where they are
            _log.warning(
                "trash directory not created: removals wait for deletion",
                extra={"directory": str(self.directory), "error": str(error)},
            )

    def take(self, path: Path) -> bool:
        """Move a file or a tree into the trash; returns False if it is missing. Call ``wake`` afterwards.

        What cannot be moved (a full disk, another file system) is deleted where it is. Blocks; raises the errors of
        ``remove_any`` then.
        """
        target = self.directory / f"{_ODD.sub('_', path.name)[:_MOST_NAME]}.{secrets.token_hex(4)}"
        try:
            path.rename(target)
        except OSError as error:
            if not os.path.lexists(path):
                return False
            _log.info("not moved to the trash: deleting it now", extra={"path": str(path), "error": str(error)})
            remove_any(str(path))
        return True

    def wake(self) -> None:
        """Delete soon what has been moved to the trash. Call it in the event loop."""
        self._wakeup.wake()

    def undeleted(self) -> list[UndeletedTree]:
        """The trees that cannot be deleted now, each with the reason."""
        now = self._clock.now()
        return [UndeletedTree(name, error, self._since.get(name, now)) for name, error in self._guard.failing.items()]

    async def usage(self) -> TrashUsage:
        """The space that is used until the deletion. Raises PykubeletError or OSError if it is unknown now."""
        names = await blocking.call("trash", self._names, deadline=_RESPONDING)
        if not names:
            self._counts.forget(_ALL)
            return TrashUsage()
        try:
            found = await self._counts.of(_ALL, str(self.directory))
        except NotFound:
            found = None
        return TrashUsage(len(names)) if found is None else TrashUsage(len(names), found.bytes, found.inodes)

    async def make_room(self, *, always: bool = False) -> None:
        """If space is short, or ``always``, wait until what is in the trash now is deleted, for a limited time.

        When that was in vain, the removals of the next minute do not wait: a kubelet removes containers one by one.
        """
        if self._clock.monotonic() < self._in_vain_until:
            return
        try:
            wait = LONGEST_WAIT if always else (await self._current_pace()).wait
            if wait > 0:
                self._awaited += 1
                self._hurry.wake()
                try:
                    async with asyncio.timeout(wait):
                        await self._wait_for_deletion()
                finally:
                    self._awaited -= 1
        except (OSError, PykubeletError) as error:
            self._in_vain_until = self._clock.monotonic() + _IN_VAIN
            _log.info("not waiting any longer for the deletion of the trash", extra={"error": str(error)})

    async def _wait_for_deletion(self) -> None:
        before: set[str] | None = None
        while (current := self._round) is not None:
            names = set(await blocking.call("trash", self._names, deadline=_RESPONDING))
            before = names if before is None else before & names
            if not before - self._guard.failing.keys():
                return
            await current.wait()

    async def run(self) -> None:
        """Delete what is in the trash; runs until cancelled."""
        self._round = asyncio.Event()
        try:
            while True:
                self._wakeup.clear()
                names = await blocking.call("trash", self._names, deadline=_RESPONDING)
                self._forget_all_but(names)
                for name in list(self._guard.due(names)):
                    if name not in self._large:
                        with self._guard.item(name) as attempt:
                            await self._begin(name)
                        self._note(name, attempt)
                # One slice of one large tree: the next round sees what has come meanwhile.
                name = next((name for name in self._large if self._guard.is_due(name)), "")
                if name:
                    with self._guard.item(name) as attempt:
                        await self._continue(name)
                    self._note(name, attempt)
                self._round.set()
                self._round = asyncio.Event()
                if not name:
                    retries = (self._guard.delay(name) for name in names if name in self._guard.failing)
                    await self._wakeup.sleep(min(retries, default=MAXIMUM))
                    await self._let_removals_end()
        finally:
            self._round.set()
            self._round = None

    async def _let_removals_end(self) -> None:
        """Wait a moment, unless a removal waits for the deletion: it would make the calls that go on slower."""
        self._hurry.clear()
        if self._wakeup.woken and not self._awaited:
            await self._hurry.sleep(_PAUSE)

    def _forget_all_but(self, names: Collection[str]) -> None:
        for known in (self._large, self._since):
            for gone in known.keys() - set(names):
                del known[gone]

    def _note(self, name: str, attempt: Attempt) -> None:
        if attempt.error is None:
            self._since.pop(name, None)
        else:
            self._since.setdefault(name, self._clock.now())

    async def _begin(self, name: str) -> None:
        """Delete a small tree, or the first part of a large one."""
        # One at a time and with an owner of its own: a deletion that hangs is not begun again beside itself.
        if not await blocking.call_to_end("trash/small", self._delete_small, name, deadline=_RESPONDING, at_once=1):
            self._large[name] = None

    async def _continue(self, name: str) -> None:
        """Delete a large tree for one slice."""
        del self._large[name]
        try:
            chosen = HURRIED if self._awaited else await self._current_pace()
            done = await self._run_worker(name, chosen)
        except BaseException:
            self._large[name] = None
            raise
        if done:
            self._counts.forget(_ALL)  # it may have counted that tree, and is kept for long then
        else:
            self._large[name] = None

    async def _run_worker(self, name: str, chosen: DeletionPace) -> bool:
        path = self.directory / name
        options = (str(os.getpid()), str(_SLICE), str(chosen.niceness), str(chosen.rest))
        argv = [sys.executable, "-P", "-m", _WORKER, str(path), *options]
        done = await proc.run(argv, timeout=_SLICE + _RESPONDING, check=False)
        try:
            # It may contain names that are not valid UTF-8, which msgspec's own decoder rejects.
            outcome = convert(json.loads(done.stdout), _Outcome)
        except (ValueError, msgspec.ValidationError) as error:
            said = done.stderr[-500:].decode(errors="replace").strip()
            raise Transient(f"cannot delete {path}: the worker ended with {done.returncode}: {said}") from error
        if outcome.error:
            raise (Permanent if outcome.refused else Transient)(f"cannot delete {path}: {outcome.error}")
        return outcome.done

    async def _current_pace(self) -> DeletionPace:
        """The pace for the free space of the disk now."""
        return await blocking.call("trash", _pace, self.directory, deadline=_RESPONDING)

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self.directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise wrap(error, f"cannot read the trash {self.directory}") from error

    def _delete_small(self, name: str) -> bool:
        """Delete a tree if it is small; returns whether it is gone."""
        steps = removal_steps(str(self.directory / name))
        for number, _ in enumerate(steps):
            if number >= _SMALL:
                steps.close()
                return False
        return True


def _pace(directory: Path) -> DeletionPace:
    usage = fsusage.filesystem(str(directory))
    return pace(usage.capacity, usage.available, usage.inodes, usage.inodes_free)
