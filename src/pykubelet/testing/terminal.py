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
from typing import Any, Self

from pykubelet.base.units import Seconds
from pykubelet.testing.patience import PATIENCE

_PIECE = 65536
LINES, COLUMNS = 27, 91


class Terminal:
    """A program on a terminal; use as a context manager: at its end the program is killed if it still runs."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        size: tuple[int, int] = (LINES, COLUMNS),
    ) -> None:
        """``env`` is added to the environment of this process; ``size`` is in lines and columns."""
        self._master, slave = pty.openpty()
        self.resize(*size)
        self.shown = ""
        """All output of the program, with the terminal's control sequences."""
        self._found = 0
        """The end of the text that `shows` found last."""
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

    def resize(self, lines: int, columns: int) -> None:
        """Resize the terminal, which sends SIGWINCH to the program."""
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def settings(self) -> list[Any]:
        """Return the terminal's settings, as of termios."""
        return list(termios.tcgetattr(self._master))

    def shows(self, text: str, within: Seconds) -> bool:
        """Whether the text is printed within so many seconds, after the text that was found before."""
        deadline = time.monotonic() + within
        while (at := self.shown.find(text, self._found)) < 0:
            if not self._ready(deadline) or not self._read_piece():
                return False
        self._found = at + len(text)
        return True

    def expect(self, text: str, timeout: Seconds = 20.0) -> None:
        """Read until the text is printed, after the text that was found before. AssertionError: it is not."""
        assert self.shows(text, timeout * PATIENCE), f"{text!r} was not shown, but {self.shown[self._found :]!r}"

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
        assert self._ready(deadline), f"the program says no more: {self.shown[-3000:]}"
        return self._read_piece()

    def _ready(self, deadline: Seconds) -> bool:
        return bool(select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0])

    def _read_piece(self) -> bool:
        """Read what is there; returns False at the end."""
        try:
            data = os.read(self._master, _PIECE)
        except OSError:
            return False  # no process has the other side open any more
        self.shown += data.decode(errors="replace")
        return bool(data)
