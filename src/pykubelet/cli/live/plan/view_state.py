"""State of the live view: the user's selection, and its changes by keys. Pure.

| mode | keys | becomes |
|---|---|---|
| TABLE | ``l``, Enter | LOGS |
| TABLE | ``r`` | CONFIRM |
| CONFIRM | ``y`` | TABLE, and the pod is restarted |
| CONFIRM | any other | TABLE |
| LOGS | ``q``, Escape, ``h``, Left | TABLE |

``q`` in the table, and Ctrl-C everywhere, end the view. A pod that is gone ends CONFIRM, but not LOGS.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from pykubelet.cli.live.plan.live_model import Key, PodEntry


class Mode(Enum):
    """Content of the screen."""

    TABLE = auto()
    CONFIRM = auto()
    """The table, with the question whether to restart the selected pod."""
    LOGS = auto()


class Sort(Enum):
    """The order of the pods; of equal ones, that of their names."""

    NAME = "name"
    CPU = "cpu"
    MEMORY = "memory"
    RESTARTS = "restarts"


class Action(Enum):
    """Action that the loop has to take."""

    QUIT = auto()
    OPEN_LOG = auto()
    """Show the log of the selected pod and container."""
    CLOSE_LOG = auto()
    RESTART = auto()
    """Restart the selected pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The user's selection."""

    mode: Mode = Mode.TABLE
    selected: Key | None = None
    index: int = 0
    """Position of the selected pod at the last key: the selection when that pod is gone."""
    sort: Sort = Sort.NAME
    container: int = 0
    """Position in the pod of the container whose log is shown."""
    log_end: int | None = None
    """Number of the last line of the log that is shown; None: the newest."""


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The numbers of the lines of a log that are kept, and the height of a page."""

    first: int = 0
    end: int = 0
    """One more than the number of the last line."""
    page: int = 20


_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b" ": "pagedown",
    b"\x03": "interrupt",
    b"\x06": "pagedown",
    b"\x02": "pageup",
    b"\t": "tab",
}
_KEY: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])|[\x00-\xff]")
_STEPS: Final = {"up": -1, "k": -1, "down": 1, "j": 1}


def keys(data: bytes) -> list[str]:
    """Return the names of the keys in what a terminal has sent: a letter, or ``up``, ``enter``, ``escape``, …

    Sequences of unknown keys give nothing.
    """
    names = []
    for found in _KEY.findall(data):
        if name := _SEQUENCES.get(found):
            names.append(name)
        elif len(found) == 1 and 0x20 < found[0] < 0x7F:
            names.append(found.decode())
    return names


def ordered(pods: Sequence[PodEntry], sort: Sort) -> list[PodEntry]:
    """Return the pods in the order of the table."""
    match sort:
        case Sort.CPU:
            return sorted(pods, key=lambda pod: -(pod.now.cpu_nano_cores or 0))
        case Sort.MEMORY:
            return sorted(pods, key=lambda pod: -(pod.now.memory_bytes or 0))
        case Sort.RESTARTS:
            return sorted(pods, key=lambda pod: -pod.restarts)
        case Sort.NAME:
            return list(pods)


def selected_index(view: View, pods: Sequence[PodEntry]) -> int:
    """Return the position of the selected pod; if it is gone, of the one in its place; -1 without pods."""
    found = (index for index, pod in enumerate(pods) if pod.key == view.selected)
    return next(found, min(view.index, len(pods) - 1))


def react(view: View, key: str, pods: Sequence[PodEntry], page: int, log: LogExtent) -> tuple[View, Action | None]:
    """Return the view after a key, and what to do. ``pods`` are in the table's order, ``page`` is its height."""
    if key == "interrupt":
        return view, Action.QUIT
    match view.mode:
        case Mode.LOGS:
            return _in_logs(view, key, pods, log)
        case Mode.CONFIRM:
            # The answer is for the pod that the question names.
            exists = any(pod.key == view.selected for pod in pods)
            return replace(view, mode=Mode.TABLE), Action.RESTART if key in ("y", "Y") and exists else None
        case Mode.TABLE:
            return _in_table(view, key, pods, page)


def _in_table(view: View, key: str, pods: Sequence[PodEntry], page: int) -> tuple[View, Action | None]:
    if key == "q":
        return view, Action.QUIT
    if key == "s":
        sorts = list(Sort)
        return replace(view, sort=sorts[(sorts.index(view.sort) + 1) % len(sorts)]), None
    if not pods:
        return view, None
    index = selected_index(view, pods)
    if key in ("l", "enter"):
        view = replace(view, mode=Mode.LOGS, container=default_container(pods[index]), log_end=None)
        return replace(view, selected=pods[index].key, index=index), Action.OPEN_LOG
    if key == "r":
        return replace(view, mode=Mode.CONFIRM, selected=pods[index].key, index=index), None
    index = _moved(key, index, page, 0, len(pods) - 1)
    return replace(view, selected=pods[index].key, index=index), None


def _in_logs(view: View, key: str, pods: Sequence[PodEntry], log: LogExtent) -> tuple[View, Action | None]:
    if key in ("q", "escape", "left", "h"):
        return replace(view, mode=Mode.TABLE, log_end=None), Action.CLOSE_LOG
    if key in ("c", "tab"):
        containers = next((pod.containers for pod in pods if pod.key == view.selected), ())
        if len(containers) < 2:
            return view, None
        return replace(view, container=(view.container + 1) % len(containers), log_end=None), Action.OPEN_LOG
    last = log.end - 1
    shown = last if view.log_end is None else min(view.log_end, last)
    # The first page is the highest that can be scrolled to.
    moved = _moved(key, shown, log.page, min(last, log.first + log.page - 1), last)
    return replace(view, log_end=None if moved >= last else moved), None


def default_container(pod: PodEntry) -> int:
    """Return the position of the first ordinary container, whose log is shown first; 0 if there is no such."""
    return min(pod.init_containers, max(0, len(pod.containers) - 1))


def _moved(key: str, at: int, page: int, first: int, last: int) -> int:
    match key:
        case "home" | "g":
            moved = first
        case "end" | "G":
            moved = last
        case "pageup":
            moved = at - page
        case "pagedown":
            moved = at + page
        case _:
            moved = at + _STEPS.get(key, 0)
    return max(first, min(last, moved))
