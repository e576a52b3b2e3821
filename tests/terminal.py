"""Run a command on a pseudo-terminal."""

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
    """A command that runs until :meth:`close`; :meth:`expect` reads its output."""

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
        """Resize the terminal, which sends SIGWINCH to the command."""
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Type text."""
        os.write(self._side, text.encode())

    def shows(self, text: str, within: float) -> bool:
        """Whether the text is printed within so many seconds, after the text that was found before."""
        end = time.monotonic() + within
        while text not in self._shown:
            if time.monotonic() >= end or not self._read():
                return False
        self._shown = self._shown.partition(text)[2]
        return True

    def expect(self, text: str, within: float = 20.0) -> None:
        """Wait until the text is printed; AssertionError with the actual output."""
        assert self.shows(text, within), f"{text!r} was not shown, but {self._shown!r}"

    def ends(self, within: float = 20.0) -> int:
        """Wait for the command; returns its exit status."""
        while self._read():
            pass
        return self.process.wait(within)

    def close(self) -> None:
        """End the command if it still runs."""
        self.process.kill()
        self.process.wait()
        os.close(self._side)

    def _read(self) -> bool:
        """Read available output for a moment; False at the end."""
        if not select.select([self._side], [], [], 0.1)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._side, 65536)
        except OSError:  # Linux reports a closed other side by EIO
            return False
        self._shown += data.decode(errors="replace")
        return bool(data)
