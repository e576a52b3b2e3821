"""Tables to which rows are added for as long as a watch runs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.base.text import printable
from pykubelet.cli.plan.columns import hanging

_GAP: Final = 3
_MESSAGE: Final = 20
"""Room for a last column whose cells have any length."""
_MINIMUM: Final[Mapping[str, int]] = {
    "NAMESPACE": 11,
    "NAME": 24,
    "READY": 5,
    "STATUS": 17,
    "RESTARTS": 8,
    "AGE": 6,
    "IP": 15,
    "TYPE": 7,
    "REASON": 18,
    "OBJECT": 24,
}
"""Widths of what later rows may have: ``ContainerCreating``, ``Terminating``, an address, a name."""


class StableColumns:
    """Aligns rows under headings whose positions never change after the first rows.

    A cell that is too long moves the cells after it only as far as needed: the next cell that fits is in its column.
    """

    def __init__(self, headings: Sequence[str], *, headed: bool = True, width: int | None = None) -> None:
        """With ``headed`` false the headings are not printed.

        ``width`` is that of the terminal: if it is too narrow, less room is kept for longer cells of later rows, and a
        last cell that is too long goes on below itself. None: it is not known.
        """
        self._headings = headings
        self._headed = headed
        self._width = width
        self._starts: list[int] | None = None

    def render(self, rows: Sequence[Sequence[str]]) -> str:
        """Return the rows as lines, each cell in one line, preceded by the headings the first time."""
        shown = [[printable(cell) for cell in row] for row in rows]
        if self._starts is None:
            self._starts = _starts(self._headings, [self._headings, *shown], self._width)
            if self._headed:
                shown.insert(0, list(self._headings))
        last = self._starts[len(self._headings) - 1]
        return "\n".join(hanging(_line(row, self._starts), last, self._width) for row in shown)


def _starts(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    needed = [max(len(row[index]) for row in rows) for index in range(len(headings))]
    widths = [max(_MINIMUM.get(heading, 0), need) for heading, need in zip(headings, needed, strict=True)]
    # The last cell may be a message, which goes on in the next line; an age needs its room.
    shown = sum(widths[:-1]) + _GAP * (len(widths) - 1) + _MINIMUM.get(headings[-1], _MESSAGE)
    excess = max(0, shown - width) if width is not None else 0
    for index in sorted(range(len(widths) - 1), key=lambda index: needed[index] - widths[index]):
        spared = min(excess, widths[index] - needed[index])
        widths[index] -= spared
        excess -= spared
    starts = [0]
    for each in widths:
        starts.append(starts[-1] + each + _GAP)
    return starts


def _line(row: Sequence[str], starts: Sequence[int]) -> str:
    line = ""
    for start, cell in zip(starts, row, strict=False):
        line = line.ljust(start) if len(line) + 1 < start or not line else f"{line} "
        line += cell
    return line.rstrip()
