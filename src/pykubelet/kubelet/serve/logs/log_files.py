"""Reads log files of containers. Blocks: called in threads.

The directory belongs to the runtime, but its content is not trusted: a log file that is a symbolic link, or anything
but a regular file, is rejected, and so are links on the path to it.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from heapq import nlargest
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.safe_path import open_beneath_no_symlinks, proc_path
from pykubelet.kubelet.types.crilog import LogRecord, parse_record
from pykubelet.kubelet.types.ids import PodRef

CHUNK_BYTES: Final = 256 * 1024
_BLOCK: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 1 << 20
"""A longer line is not of the CRI log format; it is skipped rather than held in memory."""
_MOST_ATTEMPTS: Final = 4096
"""More than the kubelet ever leaves; a pod with a volume among the logs can create any number."""
_NAME: Final = re.compile(r"(\d{1,9})\.log", re.ASCII)


class LogDirectory:
    """The log files of one container: ``N.log`` for its N-th restart, and rotated ones beside them."""

    def __init__(self, *, root: Path, ref: PodRef, container: str) -> None:
        self._root = root
        self._relative = f"{ref.namespace}_{ref.name}_{ref.uid}/{container}"

    @contextmanager
    def opened(self) -> Iterator[str]:
        """Yield a path to the directory that stays valid within the block even if it is renamed. NotFound, Invalid."""
        fd = open_beneath_no_symlinks(self._root, self._relative, os.O_PATH | os.O_DIRECTORY)
        try:
            yield proc_path(fd)
        finally:
            os.close(fd)

    def attempts(self) -> list[int]:
        """Return the existing attempt numbers N, newest first, at most 4096; empty if there is no directory."""
        try:
            with self.opened() as path, os.scandir(path) as entries:
                return nlargest(_MOST_ATTEMPTS, (int(match[1]) for e in entries if (match := _NAME.fullmatch(e.name))))
        except NotFound:
            return []

    def open(self, attempt: int) -> "LogFile":
        """Open the log file of one attempt. NotFound; Invalid: a link, or not a regular file."""
        name = f"{attempt}.log"
        pinned = open_beneath_no_symlinks(self._root, f"{self._relative}/{name}", os.O_PATH)
        try:
            if not stat.S_ISREG(os.fstat(pinned).st_mode):
                raise Invalid(f"log file {name} in {self._root / self._relative} is not a regular file")
            return LogFile(os.open(proc_path(pinned), os.O_RDONLY | os.O_CLOEXEC))
        finally:
            os.close(pinned)

    def is_rotated(self, attempt: int, file: "LogFile") -> bool:
        """Return whether another file has taken this file's name."""
        try:
            with closing(self.open(attempt)) as newer:
                return newer.identity != file.identity
        except (NotFound, Invalid):
            return False


class LogFile:
    """An open log file and a position in it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._end: int | None = None
        self._position = 0
        self._rest = b""
        self._skipping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode number."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def end_here(self) -> None:
        """Let ``seek_tail`` and ``read`` take the present end of the file for its end: what is appended is not read.

        Without that the last 3 lines become 4 while a container writes, and one that writes faster than its log is
        read keeps a reader busy for ever.
        """
        self._end = os.fstat(self._fd).st_size

    def seek_tail(self, lines: int) -> None:
        """Go to the beginning of the last ``lines`` lines, reading backwards from the end.

        The parts of a partial line count as one line; where streams are interleaved, a line may lose its first parts.
        """
        position = start = os.fstat(self._fd).st_size if self._end is None else self._end
        data, found = b"", 0
        while position > 0:
            size = min(_BLOCK, position)
            position -= size
            data = os.pread(self._fd, size, position) + data
            upto = len(data)
            while upto > 0:
                cut = data.rfind(b"\n", 0, upto - 1) + 1
                if cut == 0 and position > 0:
                    break  # the line begins in an earlier block
                found += _ends_line(data[cut:upto])
                if found > lines:
                    self._position = start
                    return
                start, upto = position + cut, cut
            data = data[:upto] if upto <= _MAX_LINE_BYTES else b""
        self._position = start

    def read(self) -> list[LogRecord]:
        """Return the records of the next chunk; empty at the end. Starts over after a truncation."""
        if os.fstat(self._fd).st_size < self._position:
            self._position, self._rest, self._skipping = 0, b"", False
        records: list[LogRecord] = []
        while not records:
            try:
                data = os.pread(self._fd, self._next_bytes(), self._position)
            except OSError as error:
                if error.errno in (errno.EIO, errno.ESTALE):
                    raise NotFound("the log file can no longer be read") from error
                raise
            if not data:
                return records
            self._position += len(data)
            records = list(self._parse(data))
        return records

    def _next_bytes(self) -> int:
        left = CHUNK_BYTES if self._end is None else self._end - self._position
        return min(CHUNK_BYTES, max(0, left))

    def _parse(self, data: bytes) -> Iterator[LogRecord]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        if self._skipping or len(rest) > _MAX_LINE_BYTES:
            self._rest, self._skipping = b"", True
        for line in lines:
            record = parse_record(line)
            if record is not None:
                yield record


def _ends_line(line: bytes) -> bool:
    """Return whether a line of the file is the last part of a container's line; False for an unfinished one."""
    if not line.endswith(b"\n"):
        return False
    fields = line.split(b" ", 3)
    return len(fields) < 3 or not fields[2].startswith(b"P")
