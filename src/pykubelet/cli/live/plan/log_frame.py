"""The lines of the live view's log of one container. Pure."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from pykubelet.cli.live.plan.live_model import PodEntry
from pykubelet.cli.live.plan.view_state import LogExtent, View
from pykubelet.cli.plan.screen_text import Line, Span, Style, clipped, cut, visible, width_of, wrapped

_KEPT: Final = 2000
_LEAST_STATE: Final = 20
_LONGEST: Final = 8192
"""Characters of a line that are kept."""


class LogText:
    """The last lines of a log, which have numbers that never change. ``state``: why there are no more."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._count = 0
        self.state = ""

    def add(self, line: str) -> None:
        """Add a line, fit to be shown."""
        self._lines.append(line[:_LONGEST])
        self._count += 1

    def end(self, reason: str) -> None:
        """Say that the log has ended, and why."""
        self.state = reason

    def extent(self, height: int) -> LogExtent:
        """Return which lines are kept, for a screen of this height."""
        return LogExtent(self._count - len(self._lines), self._count, max(1, height - 2))

    def before(self, end: int) -> Sequence[str]:
        """Return the lines that are kept with numbers below ``end``."""
        return list(self._lines)[: max(0, end - (self._count - len(self._lines)))]


def log_frame(log: LogText, pod: PodEntry | None, view: View, width: int, height: int) -> list[Line]:
    """Return exactly ``height`` lines of at most ``width`` cells; long lines of the log are wrapped."""
    extent = log.extent(height)
    end = extent.end if view.log_end is None else min(view.log_end + 1, extent.end)
    rows: list[str] = []
    for text in reversed(log.before(end)):
        rows = [*wrapped(text, width), *rows]
        if len(rows) >= extent.page:
            break
    shown = rows[-extent.page :]
    lines = [Line((Span(_title(pod, view), Style.STRONG),), bar=True)]
    lines += [Line((Span(text),)) for text in shown]
    if not extent.end:
        lines.append(Line((Span(" no output yet", Style.FAINT),)))
        # The foot has the beginning of the reason only.
        reason = wrapped(log.state, max(1, width - 1)) if log.state else []
        lines += [Line((Span(f" {text}", Style.FAINT),)) for text in reason]
    lines += [Line()] * (height - 1 - len(lines))
    lines = [*lines[: height - 1], Line((Span(_foot(log, pod, view, extent, width, end), Style.FAINT),))]
    return [clipped(line, width) for line in lines[-height:]]


def _title(pod: PodEntry | None, view: View) -> str:
    if pod is None:
        name = visible(view.selected[1]) if view.selected else ""
        return f" log of {name} (the pod is gone)"
    container = pod.containers[view.container] if view.container < len(pod.containers) else None
    state = f"  {container.state}, {container.restarts} restarts" if container else ""
    return f" log of {pod.name}/{container.name if container else ''}{state}"


def _foot(log: LogText, pod: PodEntry | None, view: View, extent: LogExtent, width: int, end: int) -> str:
    words = ["q back", "↑↓ scroll"]
    if pod is not None and len(pod.containers) > 1:
        words.append("c next container")
    if view.log_end is not None:
        words = [f"{extent.end - end} newer lines", "G newest", *words]
    if log.state:
        keys = width_of(["   ".join(words)])
        words.insert(0, cut(log.state, max(_LEAST_STATE, width - keys - 4)))
    return " " + "   ".join(words)
