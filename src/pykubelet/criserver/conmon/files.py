"""The files of conmon: exit code, OOM marker, control FIFO."""

import errno
import os
from pathlib import Path

from msgspec import Struct

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.files.safe_path import read_regular
from pykubelet.criserver.types import ContainerID
from pykubelet.linux.errors import raise_passing

_CONTROL = "ctl"
_OOM = "oom"
_NUMBER = 32
_REOPEN_LOGS = b"2 0 0\n"


class Exit(Struct, frozen=True):
    """The end of a container; ``at`` in nanoseconds since the epoch."""

    code: int
    at: int
    oom_killed: bool


def read_exit(exits: Path, bundle: Path, container: ContainerID) -> Exit | None:
    """Read the exit that conmon has written; None when it has not (yet). Transient: it cannot be read for now."""
    path = exits / container
    try:
        text, at = read_regular(path, _NUMBER).decode(errors="replace"), path.stat().st_mtime_ns
    except OSError as error:
        raise_passing(error, str(path))
        return None
    # conmon renames the complete file into place; an empty file means that the disk was full.
    code = int(text) if text.strip().lstrip("-").isdecimal() else 255
    return Exit(code, at, (bundle / _OOM).exists())


def reopen_log(bundle: Path) -> None:
    """Make conmon reopen its log file. Blocks briefly. NotFound: there is no conmon."""
    try:
        fd = os.open(bundle / _CONTROL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            raise NotFound("cannot reopen the log: conmon, the monitor, is not running") from error
        raise Permanent(f"cannot open conmon's control FIFO {bundle / _CONTROL}: {error.strerror}") from error
    try:
        os.write(fd, _REOPEN_LOGS)
    finally:
        os.close(fd)


class ConmonControl:
    """Control of the streams of a container that conmon created, for an attached client."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle

    async def resize(self, width: int, height: int) -> None:
        """Send conmon the new size of the container's terminal; ignored when conmon has ended."""
        try:
            fd = os.open(self._bundle / _CONTROL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.write(fd, f"1 {height} {width}\n".encode())
        finally:
            os.close(fd)

    async def end_input(self) -> None:
        """Do nothing: conmon closes the container's stdin when the client's input ends."""
