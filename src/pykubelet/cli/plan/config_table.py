"""The table of ``pykubelet config status``. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykubelet.cli.plan.columns import Columns
from pykubelet.cli.plan.config_changes import CHANGES, change_of
from pykubelet.cli.plan.screen_text import cut, fitted, visible, width_of, wrapped

_WIDTH: Final = 28
"""Most cells of a value in the table with all columns."""
_GAP: Final = 3
_NARROWEST: Final = 8
"""Least cells of a value in the table for narrow terminals."""
_WAITS: Final = "needs restart"
"""The state of a field whose new value needs a restart."""


def config_table(fields: Sequence[Mapping[str, Any]], width: int | None = None, *, reasons: bool = True) -> str:
    """Return the table of fields as the agent reports them.

    ``width`` is that of the terminal, in cells: long values are cut. Where the table does not fit even so, a field has
    its value in force and what a change needs; its configured value, if it is another one, and with ``reasons`` the
    reason are on lines of their own below. None: the whole table.
    """
    full = _full(fields, None if width is None else _WIDTH)
    if width is None or width_of(full.splitlines()) <= width:
        return full
    return _narrow(fields, width, reasons)


def _full(fields: Sequence[Mapping[str, Any]], most: int | None) -> str:
    """Return the table with a column for each property; ``most`` limits the width of values."""
    rows = []
    for each in fields:
        in_force, configured = _text(each["inForce"]), _text(each["configured"])
        shown = [in_force, "" if configured == in_force else configured]
        rows.append(
            (
                *(each["field"], *(text if most is None else cut(text, most) for text in shown)),
                *(each["state"], f"{change_of(each)}: {each['reason']}"),
            )
        )
    return Columns("FIELD", "IN FORCE", "CONFIGURED", "STATE", "A CHANGE IS").render(rows)


def _narrow(fields: Sequence[Mapping[str, Any]], width: int, reasons: bool) -> str:
    """Return the table with three columns in at most ``width`` cells."""
    headings = ("FIELD", "IN FORCE", "A CHANGE IS")
    last = width_of([headings[2], *CHANGES.values()])
    names = min(width_of([headings[0], *(each["field"] for each in fields)]), width - last - 2 * _GAP - _NARROWEST)
    values = min(width_of([headings[1], *(_text(each["inForce"]) for each in fields)]), width - names - last - 2 * _GAP)
    gap = " " * _GAP
    lines = [gap.join((fitted(headings[0], names), fitted(headings[1], values), headings[2]))]
    for each in fields:
        in_force, configured = _text(each["inForce"]), _text(each["configured"])
        cells = fitted(visible(each["field"]), names), fitted(visible(in_force), values)
        lines.append(gap.join((*cells, change_of(each))))
        below = [f"configured: {configured} ({each['state']})"] if configured != in_force else []
        if reasons:
            below.append(each["reason"])
        for text in below:
            lines += [f"  {part}" for part in wrapped(visible(text), width - 2)]
    return "\n".join(cut(line, width) for line in lines)


def is_of_interest(field: Mapping[str, Any]) -> bool:
    """Return whether a field is set, or its value is not the one in force."""
    return not field["default"] or field["state"] == _WAITS


def summary(answer: Mapping[str, Any]) -> str:
    """Return what is pending, in a line or two."""
    lines = []
    if answer["restart"]:
        lines.append(f"needs a restart of the agent: {', '.join(answer['restart'])}")
    if answer["error"]:
        lines.append(f"the present files are refused, the former configuration stays in force: {answer['error']}")
    return "\n".join(lines) or "nothing is pending"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False)
