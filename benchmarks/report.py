"""Reports: a table on the terminal and a JSON file."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.budgets import Judgement, Verdict
from benchmarks.figures import AGENT, CONTAINERD, GO, SERVER, SUBJECTS, WHOLE, Figure, find

_STYLES = {Verdict.REACHED: "green", Verdict.MISSED: "bold red", Verdict.NOT_MEASURED: "dim"}
_CRI = {"one": "one pod at a time", "shared": "shared PID namespace", "shim": "the same shim"}
_API = {"default": "default pod", "tokenless": "no token", "inits": "5 inits of true"}
_PLAYED = {"one": "one pod", "volumes": "with volumes"}
_NAMES = {
    "start.one": "start, one at a time",
    "start.volumes": "start, with volumes",
    "restart.gap": "exit to restart",
    "init.total": "pod with 5 inits of true",
    "init.step": "init exit to next start",
}


def show(console: Console, figures: Sequence[Figure], judgements: Sequence[Judgement]) -> None:
    """Print both tables."""
    subjects = [subject for subject in SUBJECTS if any(figure.subject == subject for figure in figures)]
    table = Table(title="p50, and p99 where there are several values")
    table.add_column("what")
    for subject in subjects:
        table.add_column(subject, justify="right")
    if GO in subjects:
        table.add_column("agent / Go", justify="right")
    if SERVER in subjects:
        table.add_column("ours / containerd", justify="right")
    for key in dict.fromkeys(figure.key for figure in figures):
        found = {subject: find(figures, key, subject) for subject in subjects}
        cells = [_cell(found[subject]) for subject in subjects]
        if GO in subjects:
            cells.append(_ratio(found.get(AGENT) or found.get(WHOLE), found[GO]))
        if SERVER in subjects:
            cells.append(_ratio(found[SERVER], found.get(CONTAINERD)))
        table.add_row(_name(key), *cells)
    console.print(table)
    goals = Table(title="goals")
    for column in ("goal", "limit", "found", ""):
        goals.add_column(column)
    for each in judgements:
        style = _STYLES[each.verdict]
        goals.add_row(each.goal.name, each.limit, each.found, f"[{style}]{each.verdict}[/{style}]")
    console.print(goals)


def write(
    path: Path, figures: Sequence[Figure], judgements: Sequence[Judgement], failure: str, remarks: Sequence[str]
) -> None:
    """Write all figures with all values as JSON."""
    document: dict[str, Any] = {
        "machine": {"kernel": platform.release(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "failure": failure,
        "remarks": list(remarks),
        "figures": [
            {
                "key": figure.key,
                "subject": figure.subject,
                "unit": figure.unit,
                "p50": round(figure.p50, 3),
                "p99": round(figure.p99, 3),
                "values": [round(value, 3) for value in figure.values],
            }
            for figure in figures
        ],
        "goals": [
            {"name": each.goal.name, "limit": each.limit, "found": each.found, "verdict": each.verdict}
            for each in judgements
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def _name(key: str) -> str:
    if key in _NAMES:
        return _NAMES[key]
    group, _, kind = key.rpartition(".")
    parts = group.split(".")
    if group in _NAMES:
        return f"{_NAMES[group]}: {kind}"
    if parts[0] == "cri":
        return f"{_CRI.get(parts[1], f'{parts[1]} pods')}: {kind.replace('_', ' ')}"
    if parts[0] == "api":
        return f"node, {_API.get(parts[1], f'{parts[1]} at once')}: {kind.replace('_', ' ')}"
    if parts[0] == "cli":
        return f"command {parts[1]}: {kind}"
    if parts[0] == "play":
        return f"kube play or apply, {_PLAYED.get(parts[1], f'{parts[1]} pods')}: {kind}"
    if parts[0] == "images":
        return f"image of {parts[1]} files: {kind}"
    if parts[0] == "pulls":
        what = f"{parts[1]} files, {parts[2]}" if len(parts) > 2 else f"an {parts[1]} image"
        return f"pull of {what}: {kind}"
    text = f"start, {parts[1]} at once" if parts[0] == "start" else f"idle with {parts[1]} pods"
    return f"{text}: {kind.replace('_', ' ')}"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if len(figure.values) == 1:
        return f"{figure.p50:.1f} {figure.unit}"
    return f"{figure.p50:.0f} … {figure.p99:.0f} {figure.unit}"


def _ratio(figure: Figure | None, peer: Figure | None) -> str:
    if figure is None or peer is None or not peer.p50:
        return ""
    return f"{figure.p50 / peer.p50:.2f}×"
