"""An output for log lines that never blocks: a reader that hangs costs lines, not the daemon.

The reader of stderr may be a journal daemon that hangs, a pipe without a reader, or a terminal that was stopped with
Ctrl-S. A blocking write would stop the event loop, and with it all pods' workers, until the reader goes on.
"""

import os
import select
import socket
import stat
from contextlib import suppress
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.files.safe_path import proc_path
from pykubelet.base.units import Seconds

PATIENCE: Final[Seconds] = 0.1
"""Longest total wait of all writes for a slow reader within ``_PERIOD``."""
_PERIOD: Final[Seconds] = 10.0
_REOPEN: Final = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LogStream:
    """Writes text to a descriptor, as ``logging.StreamHandler`` does. Lines that the reader does not take are dropped.

    The next line after them begins with a line that tells their number.
    """

    def __init__(self, fd: int, clock: Clock) -> None:
        """``fd``: of a pipe, a socket or a terminal; its flags are not changed, since others may share it.

        OSError: it cannot be opened again.
        """
        self._clock = clock
        self._fd = fd
        self._end: _SocketEnd | _FileEnd = (_SocketEnd if stat.S_ISSOCK(os.fstat(fd).st_mode) else _FileEnd)(fd)
        self._dropped = 0
        self._cut = False
        """Whether the last line was written in part."""
        self._left = PATIENCE
        self._since = clock.monotonic()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it was closed, as for other streams of handlers."""
        return self._closed

    def write(self, text: str) -> None:
        """Write text, which is whole lines; drop it if the reader does not read it in time."""
        note = f"{self._dropped} log lines were dropped: the reader of the log did not take them\n"
        before = ("\n" if self._cut else "") + (note if self._dropped else "")
        data = memoryview((before + text).encode(errors="backslashreplace"))
        size = len(data)
        while data:
            with suppress(BlockingIOError):
                try:
                    data = data[self._end.write(data) :]
                    continue
                except (BrokenPipeError, ConnectionError):
                    return  # there is no reader any more, and will be none
            if not self._ready():
                break
        if data:
            self._dropped += text.count("\n") or 1
            self._cut = self._cut if len(data) == size else True
        else:
            self._dropped, self._cut = 0, False

    def flush(self) -> None:
        """Do nothing: no text is kept back."""

    def close(self) -> None:
        """Give back what the stream has opened; the descriptor stays open."""
        self._closed = True
        self._end.close()

    def _ready(self) -> bool:
        """Wait for the reader, as long as there is patience left; return whether it takes something."""
        begun = self._clock.monotonic()
        if begun - self._since > _PERIOD:
            self._left, self._since = PATIENCE, begun
        if self._left <= 0:
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        found = bool(poll.poll(self._left * 1000))
        self._left = self._left - (self._clock.monotonic() - begun) if found else 0.0
        return found


def stream_for(fd: int, clock: Clock) -> LogStream | None:
    """Return the stream for a descriptor whose reader may hang; None for a file, or where it cannot be had."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
            return LogStream(fd, clock)
    except OSError:
        return None
    return None


class _SocketEnd:
    """A socket, as that of the journal."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))

    def write(self, data: memoryview) -> int:
        return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._socket.close()


class _FileEnd:
    """A pipe or a terminal, opened again: O_NONBLOCK on the given descriptor would hold for all who share it."""

    def __init__(self, fd: int) -> None:
        self._fd = os.open(proc_path(fd), _REOPEN)

    def write(self, data: memoryview) -> int:
        return os.write(self._fd, data)

    def close(self) -> None:
        os.close(self._fd)
