"""Plain text tables as kubectl prints them."""

from collections.abc import Sequence
from typing import Final

from pykubelet.base.text import printable

_GAP: Final = "   "
_LEAST: Final = 20
"""Room for text, without which a line does not go on below its last column."""
_INDENT: Final = 4


class Columns:
    """Aligns rows under headings. Later rows keep, and may widen, the widths of earlier ones, as in a watch."""

    def __init__(self, *headings: str) -> None:
        self._headings = headings
        self._widths = [len(heading) for heading in headings]
        self._headed = False

    def render(self, rows: Sequence[Sequence[str]], width: int | None = None) -> str:
        """Return the rows as lines, each cell in one line, preceded by the headings the first time.

        ``width`` is that of the terminal: a last cell that is too long for it goes on below itself. None: it does not.
        """
        shown = [[printable(cell) for cell in row] for row in rows]
        if not self._headed:
            shown.insert(0, list(self._headings))
            self._headed = True
        for row in shown:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return "\n".join(hanging(self._line(row), self._last_start, width) for row in shown)

    def aligned(self, rows: Sequence[Sequence[str]], width: int | None = None) -> str:
        """Return the rows as lines without the headings; ``width`` as of :meth:`render`."""
        self._headed = True
        self._widths = [0] * len(self._headings)
        return self.render(rows, width)

    @property
    def _last_start(self) -> int:
        """Offset of the last column."""
        return sum(self._widths[:-1]) + len(_GAP) * (len(self._widths) - 1)

    def _line(self, row: Sequence[str]) -> str:
        return _GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip()


def hanging(line: str, start: int, width: int | None) -> str:
    """Return a line that is longer than ``width`` as several, broken at spaces; the others begin at ``start``.

    A word that does not fit into a line is broken. If fewer than 20 columns are left behind ``start``, the others begin
    at column 4. ``width`` is that of the terminal, or None: then, or with less than 24 columns, the line
    stays as it is.
    """
    start = start if width is None or width - start >= _LEAST else _INDENT
    if width is None or len(line) <= width or width - start < _LEAST:
        return line
    room = width - start
    head, rest = line[:start], line[start:]
    lines = []
    while len(rest) > room:
        at = rest.rfind(" ", 1, room + 1)
        end = at if at > 0 else room
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip(" ")
    if rest:
        lines.append(rest)
    return head + f"\n{' ' * start}".join(lines)


def age(seconds: float) -> str:
    """Format a time span in kubectl's short form: ``45s``, ``5m10s``, ``3h25m``, ``2d4h``, ``400d``."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    if days < 8:
        return f"{days}d{rest}h" if rest else f"{days}d"
    return f"{days}d"


def size(count: int) -> str:
    """Format bytes in a short decimal form: ``1.2MB``."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f}{unit}" if unit == "B" else f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}TB"


def short_digest(digest: str) -> str:
    """Return the first twelve digits of a digest, which is how tools show it."""
    return digest.rpartition(":")[2][:12]
