"""Tables to which rows are added for as long as a watch runs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.base.text import printable

_GAP: Final = 3
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

    def __init__(self, headings: Sequence[str], *, headed: bool = True) -> None:
        """With ``headed`` false the headings are not printed."""
        self._headings = headings
        self._headed = headed
        self._starts: list[int] | None = None

    def render(self, rows: Sequence[Sequence[str]]) -> str:
        """Return the rows as lines, each cell in one line, preceded by the headings the first time."""
        shown = [[printable(cell) for cell in row] for row in rows]
        if self._starts is None:
            self._starts = _starts(self._headings, [self._headings, *shown])
            if self._headed:
                shown.insert(0, list(self._headings))
        return "\n".join(_line(row, self._starts) for row in shown)


def _starts(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    starts = [0]
    for index, heading in enumerate(headings):
        width = max(_MINIMUM.get(heading, 0), *(len(row[index]) for row in rows))
        starts.append(starts[-1] + width + _GAP)
    return starts


def _line(row: Sequence[str], starts: Sequence[int]) -> str:
    line = ""
    for start, cell in zip(starts, row, strict=False):
        line = line.ljust(start) if len(line) + 1 < start or not line else f"{line} "
        line += cell
    return line.rstrip()
