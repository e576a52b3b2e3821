"""A terminal for the live view: its other screen, single keys without echo, and only what has changed is written.

Nothing here survives `Terminal.leave`: the former screen, the cursor and the terminal's settings are back.
"""

import os
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from rich.cells import cell_len

from pykubelet.cli.plan.screen_text import Line, Style

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The other screen, no cursor, no automatic line breaks, empty."""
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_COLOURS: Final = {
    Style.PLAIN: "",
    Style.STRONG: "\x1b[1m",
    Style.FAINT: "\x1b[2m",
    Style.GOOD: "\x1b[32m",
    Style.WARNING: "\x1b[33m",
    Style.BAD: "\x1b[1;31m",
    Style.GRAPH: "\x1b[36m",
}
_WITHOUT_COLOURS: Final = {**dict.fromkeys(Style, ""), Style.STRONG: "\x1b[1m", Style.BAD: "\x1b[1m"}
_READ_BYTES: Final = 4096


def is_interactive() -> bool:
    """Return whether a user sees a screen and can type: input and output are a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Terminal:
    """Standard input and output, which are a terminal."""

    def __init__(self) -> None:
        self.input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "ascii"
        self._styles = _WITHOUT_COLOURS if os.environ.get("NO_COLOR") else _COLOURS
        self._settings = termios.tcgetattr(self.input)
        self._shown: list[str] = []
        self._size = (0, 0)
        self.ascii_only = self._encoding.lower().replace("-", "") != "utf8"

    def enter(self) -> None:
        """Show the other screen, and read single keys. OSError: the terminal is gone."""
        sys.stdout.flush()
        tty.setcbreak(self.input, termios.TCSADRAIN)
        settings = termios.tcgetattr(self.input)
        settings[0] &= ~termios.IXON  # Ctrl-S would block this process in a write
        termios.tcsetattr(self.input, termios.TCSADRAIN, settings)
        self._shown = []
        self._write(_ENTER)

    def leave(self) -> None:
        """Restore the terminal; also one that is gone."""
        with suppress(OSError, termios.error):
            self._write(_LEAVE)
        with suppress(OSError, termios.error):
            # Keys that were typed meanwhile are not for the shell.
            termios.tcsetattr(self.input, termios.TCSAFLUSH, self._settings)

    def size(self) -> tuple[int, int]:
        """Return columns and lines; 80 and 24 if the terminal does not know them. OSError: the terminal is gone."""
        width, height = os.get_terminal_size(self._output)
        return width or 80, height or 24

    def read(self) -> bytes:
        """Return what has been typed; empty: the terminal is gone."""
        try:
            return os.read(self.input, _READ_BYTES)
        except OSError:
            return b""

    def draw(self, lines: Sequence[Line], width: int) -> None:
        """Show the lines on a screen of this width; those that differ are written. OSError: the terminal is gone."""
        shown = [self._coded(line, width) for line in lines]
        written = ""
        if self._size != (width, len(lines)):
            self._size = (width, len(lines))
            self._shown = []
            written = "\x1b[0m\x1b[2J"
        for number, text in enumerate(shown):
            if number >= len(self._shown) or self._shown[number] != text:
                written += f"\x1b[{number + 1};1H{text}\x1b[0m\x1b[K"
        self._shown = shown
        if written:
            self._write(written)

    def _coded(self, line: Line, width: int) -> str:
        begin = "\x1b[0;7m" if line.bar else "\x1b[0m"
        # Inverted colours would become a patchwork of backgrounds.
        styles = _WITHOUT_COLOURS if line.bar else self._styles
        text, last = "", None
        for span in filter(lambda each: each.text, line.spans):
            text += span.text if span.style is last else f"{begin}{styles[span.style]}{span.text}"
            last = span.style
        return text + " " * (width - cell_len(line.text)) if line.bar else text

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "replace"))
        while data:
            data = data[os.write(self._output, data) :]


@contextmanager
def entered(terminal: Terminal) -> Iterator[None]:
    """Enter the terminal, and leave it however the block ends."""
    try:
        terminal.enter()
        yield
    finally:
        terminal.leave()
