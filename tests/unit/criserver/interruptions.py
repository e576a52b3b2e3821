"""Ends code before a chosen step on the disk, as SIGKILL does; makes files that cannot be read, or not at once."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.files import retried_reads
from pykubelet.base.files.retried_reads import RetriedReads
from pykubelet.base.units import Seconds

_STEPS = ("chmod", "fsync", "link", "mkdir", "open", "rename", "replace", "rmdir", "unlink", "utime")


class _Killed(BaseException):
    """The end of the server."""


class KillBeforeStep:
    """Ends the server before a step, a call of ``os``."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.done = False

    def step(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left <= 0:
            self.done = True
            raise _Killed
        return call(*arguments, **named)


@contextmanager
def killed(step: int) -> Iterator[KillBeforeStep]:
    """Run the body until the numbered step."""
    kill = KillBeforeStep(step)
    with pytest.MonkeyPatch.context() as patch:
        for name in _STEPS:
            patch.setattr(os, name, partial(kill.step, getattr(os, name)))
        try:
            yield kill
        except _Killed:
            pass


@contextmanager
def bad_inode(path: Path) -> Iterator[None]:
    """The file system cannot look up the file, until it is checked."""
    lstat = Path.lstat

    def look(file: Path) -> os.stat_result:
        if file == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file))
        return lstat(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "lstat", look)
        yield


class PassingErrors:
    """The first looks at each file below a directory fail, by name or content; pauses between them take no time."""

    def __init__(self, root: Path, number: int, patch: pytest.MonkeyPatch, *, times: int = 2) -> None:
        self._root = str(root)
        self._number = number
        self._times = times
        self._failed: Counter[tuple[str, str]] = Counter()
        self.paused = 0.0
        open_file, lstat = os.open, Path.lstat

        def open_or_fail(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            if flags & os.O_PATH and not flags & os.O_DIRECTORY:
                self._fail("open", path)
            return open_file(path, flags, *arguments, **named)

        def lstat_or_fail(path: Path) -> os.stat_result:
            self._fail("lstat", path)
            return lstat(path)

        patch.setattr(os, "open", open_or_fail)
        patch.setattr(Path, "lstat", lstat_or_fail)
        patch.setattr(retried_reads, "_shared", RetriedReads(lambda: self.paused, self._pause))

    @property
    def failed(self) -> int:
        """The number of failures so far."""
        return self._failed.total()

    def _fail(self, call: str, path: Any) -> None:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if name.startswith(self._root) and self._failed[call, name] < self._times:
            self._failed[call, name] += 1
            raise OSError(self._number, os.strerror(self._number), name)

    def _pause(self, seconds: Seconds) -> None:
        self.paused += seconds
