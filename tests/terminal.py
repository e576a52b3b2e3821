"""A command on a terminal of its own, as a person has it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence


class Terminal:
    """Runs the command until :meth:`close`; what it shows is read by :meth:`expect`."""

    def __init__(self, command: Sequence[str], rows: int, columns: int) -> None:
        self._side, theirs = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._shown = ""

    def resize(self, rows: int, columns: int) -> None:
        """Change the window, which tells the command (SIGWINCH)."""
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._side, text.encode())

    def shows(self, text: str, within: float) -> bool:
        """Whether the text comes within so many seconds, after what was found before."""
        end = time.monotonic() + within
        while text not in self._shown:
            if time.monotonic() >= end or not self._read():
                return False
        self._shown = self._shown.partition(text)[2]
        return True

    def expect(self, text: str, within: float = 20.0) -> None:
        """The same, or AssertionError with what came instead."""
        assert self.shows(text, within), f"{text!r} was not shown, but {self._shown!r}"

    def ends(self, within: float = 20.0) -> int:
        """The command's exit status."""
        while self._read():
            pass
        return self.process.wait(within)

    def close(self) -> None:
        """End the command if it still runs."""
        self.process.kill()
        self.process.wait()
        os.close(self._side)

    def _read(self) -> bool:
        """What there is, within a moment; False at the end."""
        if not select.select([self._side], [], [], 0.1)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._side, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self._shown += data.decode(errors="replace")
        return bool(data)
