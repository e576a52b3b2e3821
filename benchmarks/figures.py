"""What was measured: series of values with a name, and the statistics over them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["ms", "MiB", "%", "MB/s"]
"""``%`` is of one core."""

BARE = "bare CRI"
AGENT = "agent"
POLLING = "agent, no events"
GO = "Go kubelet"
SERVER = "our server"
CONTAINERD = "containerd"
WHOLE = "agent on our server"
SUBJECTS = (BARE, AGENT, POLLING, GO, WHOLE, SERVER, CONTAINERD)
"""Who is measured, in the order of the table's columns."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One series: what, of whom, all its values."""

    key: str
    """Dotted, as in ``start.one.running``; ``budgets.toml`` refers to it."""
    subject: str
    unit: Unit
    values: tuple[float, ...]

    @property
    def p50(self) -> float:
        return percentile(self.values, 0.50)

    @property
    def p99(self) -> float:
        return percentile(self.values, 0.99)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share (0 to 1) lies, interpolated between neighbours. Needs one value at least."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def differences(values: Sequence[float], floors: Sequence[float]) -> tuple[float, ...]:
    """Each value minus its partner; both series were taken alternately, so drift of the machine cancels out."""
    return tuple(value - floor for value, floor in zip(values, floors, strict=True))


def find(figures: Iterable[Figure], key: str, subject: str) -> Figure | None:
    """The series of that name, if it was taken."""
    return next((figure for figure in figures if figure.key == key and figure.subject == subject), None)
