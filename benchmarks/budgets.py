"""Compare figures with the goals in ``budgets.toml``. Pure, except for reading that file."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from benchmarks.figures import GO, Figure, find

_FILE = Path(__file__).with_name("budgets.toml")


class Verdict(StrEnum):
    REACHED = "reached"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: a limit for a statistic of a figure, absolute or as a ratio to a peer's."""

    name: str
    figure: str
    subject: str
    statistic: Literal["p50", "p99"]
    at_most: float | None = None
    at_most_ratio: float | None = None
    peer: str = GO
    """Subject whose figure is the denominator of the ratio."""
    otherwise_at_most: float | None = None
    """The absolute limit if the peer was not measured."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A goal and its result, as text for the report."""

    goal: Goal
    verdict: Verdict
    limit: str
    found: str


def load(path: Path = _FILE) -> list[Goal]:
    """The goals of the file, in the order of the file."""
    return [Goal(**entry) for entry in tomllib.loads(path.read_text())["goal"]]


def judge(goals: Sequence[Goal], figures: Sequence[Figure]) -> list[Judgement]:
    """The result of each goal."""
    return [_judge(goal, figures) for goal in goals]


def _judge(goal: Goal, figures: Sequence[Figure]) -> Judgement:
    figure = find(figures, goal.figure, goal.subject)
    if figure is None:
        return Judgement(goal, Verdict.NOT_MEASURED, "", "")
    found = figure.p50 if goal.statistic == "p50" else figure.p99
    shown = f"{found:.1f} {figure.unit}"
    peer = find(figures, goal.figure, goal.peer)
    if goal.at_most_ratio is not None and peer is not None:
        ratio = found / peer.p50
        limit = f"≤ {goal.at_most_ratio:g}×"
        return Judgement(goal, _verdict(ratio, goal.at_most_ratio), limit, f"{ratio:.2f}× ({shown})")
    most = goal.at_most if goal.at_most is not None else goal.otherwise_at_most
    if most is None:
        return Judgement(goal, Verdict.NOT_MEASURED, "", shown)
    return Judgement(goal, _verdict(found, most), f"≤ {most:g} {figure.unit}", shown)


def _verdict(found: float, most: float) -> Verdict:
    return Verdict.REACHED if found <= most else Verdict.MISSED
