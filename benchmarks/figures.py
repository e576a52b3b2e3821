"""Figures: named series of measured values, and statistics over them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["ms", "MiB", "%", "MB/s"]
"""Unit of a value; ``%`` is of one core."""

BARE = "bare CRI"
AGENT = "agent"
POLLING = "agent, no events"
GO = "Go kubelet"
SERVER = "our server"
CONTAINERD = "containerd"
WHOLE = "agent on our server"
PODMAN = "podman"
SUBJECTS = (BARE, AGENT, POLLING, GO, WHOLE, SERVER, CONTAINERD, PODMAN)
"""The measured subjects, in the order of the table's columns."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One series: key, subject, unit and all values."""

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
    """The value below which that share (0 to 1) of the values lies, interpolated. Needs at least one value."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def differences(values: Sequence[float], floors: Sequence[float]) -> tuple[float, ...]:
    """Differences of paired values; both series were taken alternately, so that drift of the machine cancels out."""
    return tuple(value - floor for value, floor in zip(values, floors, strict=True))


def find(figures: Iterable[Figure], key: str, subject: str) -> Figure | None:
    """The series with that key and subject; None if it was not measured."""
    return next((figure for figure in figures if figure.key == key and figure.subject == subject), None)
