"""The waterfall of pods' starts as an SVG picture. Pure.

The picture needs no other file, and follows the reader's choice of light or dark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, log10
from typing import Any, Final

from pykubelet.base.units import Seconds
from pykubelet.cli.plan.screen_text import cut, visible, width_of

_WIDTH: Final = 960
_MARGIN: Final = 24
_ROW: Final = 24
_TIMES: Final = 84
"""Room on the right for the text of a bar that reaches the end."""
_CHARACTER: Final = 7.3
"""Width of a character of the labels."""
_LONGEST_LABEL: Final = 44
_LONGEST_ERROR: Final = 118
_SIMILAR: Final = 10.0
"""Starts that differ less than by this factor share a scale."""
_GROUPS: Final = (
    ("prepare", "preparation", ("seen", "queued", "cgroup", "volumes")),
    ("sandbox", "sandbox", ("sandbox",)),
    ("pull", "image pull", ("pull",)),
    ("create", "create", ("create",)),
    ("begin", "start", ("start", "postStart")),
    ("init", "init container runs", ("init",)),
    ("ready", "ready", ("ready",)),
)
"""CSS class, text in the legend, and steps."""
_CLASS: Final = {step: name for name, _, steps in _GROUPS for step in steps}
_LIGHT: Final = {
    ".page": "fill:#ffffff",
    ".stripe": "fill:#f3f5f8",
    ".grid": "stroke:#d5dae1;stroke-width:1",
    "text": "fill:#1f2733",
    ".faint": "fill:#5f6b7a",
    ".fault": "fill:#b3261e",
    ".prepare": "fill:#7a8699",
    ".sandbox": "fill:#7c5cd6",
    ".pull": "fill:#d9822b",
    ".create": "fill:#1a8fa8",
    ".begin": "fill:#2f9e55",
    ".init": "fill:#c2a013",
    ".ready": "fill:#1f7a3f",
    ".failed": "fill:#d64545",
}
_DARK: Final = {
    ".page": "fill:#14181f",
    ".stripe": "fill:#1b212b",
    ".grid": "stroke:#343d4b",
    "text": "fill:#e3e8ef",
    ".faint": "fill:#98a4b5",
    ".fault": "fill:#ff8a80",
    ".prepare": "fill:#8c99ad",
    ".sandbox": "fill:#a48bf0",
    ".pull": "fill:#f0a354",
    ".create": "fill:#3fb6cf",
    ".begin": "fill:#4cc47a",
    ".init": "fill:#dcc04a",
    ".ready": "fill:#6be397",
    ".failed": "fill:#f06a6a",
}
_FONTS: Final = (
    "text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
    ".title{font-size:15px;font-weight:bold}.running{fill-opacity:.45}"
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts seconds since a start to a position."""

    left: float
    span: Seconds
    """Time that the whole width represents."""

    @property
    def right(self) -> float:
        return _WIDTH - _MARGIN - _TIMES

    def at(self, seconds: Seconds) -> float:
        """Return the position of a time."""
        return self.left + max(0.0, min(1.0, seconds / self.span)) * (self.right - self.left)


def timeline_svg(views: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture of timelines, as the agent's ``/pykubelet/v1/timeline`` gives them, one below the other.

    Starts that take similarly long have the same scale, others have their own.
    """
    labels = [_label(step) for view in views for step in view["steps"]]
    left = _MARGIN + max(70.0, width_of(labels) * _CHARACTER) + 14
    spans = [_span(view) for view in views]
    common = max(spans, default=0.0)
    if common > _SIMILAR * min(spans, default=0.0):
        common = 0.0
    body: list[str] = []
    y = float(_MARGIN)
    for view, span in zip(views, spans, strict=True):
        piece, y = _section(view, _Scale(left, common or span), y)
        body += piece
    used = {_CLASS.get(step["step"], "prepare") for view in views for step in view["steps"]}
    body += _legend(used, y)
    height = round(y + _ROW + _MARGIN / 2)
    names = escape(", ".join(dict.fromkeys(visible(str(view["pod"])) for view in views)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>start of {names}</title>",
        f"<style>{_FONTS}{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
    )
    return "\n".join((*head, *body, "</svg>", ""))


def duration(seconds: Seconds) -> str:
    """Format a time span: ``5.4 ms``, ``130 ms``, ``2.67 s``, ``3 min 20 s``."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _section(view: Mapping[str, Any], scale: _Scale, y: float) -> tuple[list[str], float]:
    """Return one timeline that begins at the height ``y``, and the height of its end."""
    lines = [
        _text(_MARGIN, y + 12, visible(str(view["pod"])), "title"),
        _text(_MARGIN, y + 32, _subtitle(view), "faint"),
    ]
    y += 48
    steps: list[Mapping[str, Any]] = list(view["steps"])
    if not steps:
        return [*lines, _text(_MARGIN, y + 12, "no step was recorded", "faint")], y + 2 * _ROW
    heights = [_ROW + (14 if step.get("error") else 0) for step in steps]
    top, bottom = y + 18, y + 18 + sum(heights)
    bars: list[str] = []
    at = top
    for number, (step, height) in enumerate(zip(steps, heights, strict=True)):
        if number % 2 == 0:
            stripe = f'x="{_MARGIN - 8}" y="{at:.0f}" width="{_WIDTH - 2 * _MARGIN + 16}" height="{height}"'
            lines.append(f'<rect class="stripe" {stripe} rx="3"/>')
        bars += _bar(step, scale, at)
        at += height
    return [*lines, *_axis(scale, y + 10, top, bottom), *bars], bottom + _MARGIN


def _bar(step: Mapping[str, Any], scale: _Scale, y: float) -> Iterator[str]:
    begin, length = float(step["start_s"]), float(step["duration_s"] or 0.0)
    x = scale.at(begin)
    end = max(scale.at(begin + length), x + 2)
    kind = "failed" if step.get("error") else _CLASS.get(str(step["step"]), "prepare")
    is_point = not length and not step.get("running")
    words = f"at {duration(begin) if begin else '0 s'}" if is_point else duration(length)
    words += " so far" if step.get("running") else ""
    yield _text(_MARGIN, y + 16, _label(step))
    yield f"<g><title>{escape(_label(step))}: begins at {duration(begin)}, {escape(words)}</title>"
    if is_point:
        points = f"{x:.1f},{y + 6:.0f} {x + 6:.1f},{y + 12:.0f} {x:.1f},{y + 18:.0f} {x - 6:.1f},{y + 12:.0f}"
        yield f'<polygon class="{kind}" points="{points}"/>'
        end = x + 6
    else:
        more = " running" if step.get("running") else ""
        yield f'<rect class="{kind}{more}" x="{x:.1f}" y="{y + 5:.0f}" width="{end - x:.1f}" height="14" rx="2"/>'
    yield "</g>"
    yield _text(end + 6, y + 16, words)
    if step.get("error"):
        error = cut(visible(" ".join(str(step["error"]).split())), _LONGEST_ERROR)
        yield _text(_MARGIN + 12, y + 31, error, "fault")


def _axis(scale: _Scale, y: float, top: float, bottom: float) -> Iterator[str]:
    """Yield lines at round times, with their labels above."""
    distance = _round_up(scale.span / 6)
    for number in range(floor(scale.span / distance + 1e-9) + 1):
        x = scale.at(number * distance)
        yield f'<line class="grid" x1="{x:.1f}" y1="{top:.0f}" x2="{x:.1f}" y2="{bottom:.0f}"/>'
        yield _text(x, y, _tick(number * distance, distance), "faint", "middle")


def _tick(seconds: Seconds, distance: Seconds) -> str:
    if distance >= 60:
        return f"{seconds / 60:g} min"
    return f"{seconds:.10g} s" if distance >= 0.1 else f"{seconds * 1000:.10g} ms"


def _round_up(seconds: Seconds) -> Seconds:
    """Return the next time of the form 1, 2 or 5 times a power of ten; from a minute on, of minutes."""
    unit = 60.0 if seconds > 60 else 1.0
    power = 10.0 ** floor(log10(seconds / unit))
    return unit * power * next(step for step in (1, 2, 5, 10) if step * power * unit >= seconds * (1 - 1e-9))


def _legend(used: set[str], y: float) -> Iterator[str]:
    x = float(_MARGIN)
    for name, text, _ in _GROUPS:
        if name in used:
            yield f'<rect class="{name}" x="{x:.0f}" y="{y:.0f}" width="12" height="12" rx="2"/>'
            yield _text(x + 18, y + 10.5, text, "faint")
            x += ceil(len(text) * _CHARACTER) + 40


def _subtitle(view: Mapping[str, Any]) -> str:
    what = "restart of containers" if view.get("kind") == "restart" else "start"
    moment = datetime.fromtimestamp(float(view["started_at"]), UTC)
    end = "ready" if view.get("ready") else "not ready"
    return f"{what} at {moment:%Y-%m-%d %H:%M:%S} UTC, {end} after {duration(float(view['total_s']))}"


def _span(view: Mapping[str, Any]) -> Seconds:
    """Return the time from the first to the last step, above 0."""
    return max((step["start_s"] + (step["duration_s"] or 0.0) for step in view["steps"]), default=0.0) or 1e-3


def _label(step: Mapping[str, Any]) -> str:
    return cut(visible(f"{step['step']} {step.get('container', '')}".rstrip()), _LONGEST_LABEL)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def _rules(styles: Mapping[str, str]) -> str:
    return "".join(f"{selector}{{{style}}}" for selector, style in styles.items())
