"""Run a program on a pseudo-terminal, for tests of interactive output."""

import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from types import TracebackType
from typing import Self

from pykubelet.base.units import Seconds
from pykubelet.testing.patience import PATIENCE

_PIECE = 65536
LINES, COLUMNS = 27, 91


class Terminal:
    """A program on a terminal; use as a context manager: at its end the program is killed if it still runs."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.shown = ""
        """All output of the program, with the terminal's control sequences."""
        try:
            # It is the program's controlling terminal, so that Ctrl-C typed there is delivered as SIGINT.
            self.process = subprocess.Popen(
                ["setsid", "--ctty", "--wait", *command],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
            )
        finally:
            os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing the terminal ends the programs on it.
        os.close(self._master)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def type(self, text: str) -> None:
        """Type text; ``\\x03`` is Ctrl-C."""
        os.write(self._master, text.encode())

    def until(self, condition: Callable[[str], object], timeout: Seconds = 60.0) -> str:
        """Read until the condition holds for the whole output. AssertionError: the program ended before, or timeout."""
        deadline = time.monotonic() + timeout * PATIENCE
        while not condition(self.shown):
            assert self._read(deadline), f"the program has ended, and had shown: {self.shown[-3000:]}"
        return self.shown

    def end(self, timeout: Seconds = 60.0) -> int:
        """Read until the program ends; returns its exit code."""
        deadline = time.monotonic() + timeout * PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(10)

    def _read(self, deadline: Seconds) -> bool:
        ready = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert ready, f"the program says no more: {self.shown[-3000:]}"
        try:
            data = os.read(self._master, _PIECE)
        except OSError:
            return False  # no process has the other side open any more
        self.shown += data.decode(errors="replace")
        return bool(data)
