"""Ends code before a chosen step on the disk, as SIGKILL does, and simulates an inode with a bad checksum."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

_STEPS = ("chmod", "fsync", "link", "mkdir", "open", "rename", "replace", "rmdir", "unlink", "utime")


class _Killed(BaseException):
    """The end of the server."""


class Kill:
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
def killed(step: int) -> Iterator[Kill]:
    """Run the body until the numbered step."""
    kill = Kill(step)
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
