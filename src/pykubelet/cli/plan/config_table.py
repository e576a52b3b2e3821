"""The table of ``pykubelet config status``. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykubelet.cli.plan.columns import Columns
from pykubelet.cli.plan.screen_text import cut

_WIDTH: Final = 28
CHANGES: Final = {"live": "applied live", "restart": "needs a restart", "none": "no effect"}
WAITS: Final = "needs restart"
"""The state of a field whose new value needs a restart."""


def config_table(fields: Sequence[Mapping[str, Any]], *, whole: bool) -> str:
    """Return the table of fields as the agent reports them; ``whole``: long values are not cut."""
    rows = []
    for each in fields:
        in_force, configured = _text(each["inForce"]), _text(each["configured"])
        shown = [in_force, "" if configured == in_force else configured]
        change = CHANGES.get(each["onChange"], each["onChange"])
        rows.append(
            (
                *(each["field"], *(text if whole else cut(text, _WIDTH) for text in shown)),
                *(each["state"], f"{change}: {each['reason']}"),
            )
        )
    return Columns("FIELD", "IN FORCE", "CONFIGURED", "STATE", "A CHANGE IS").render(rows)


def is_of_interest(field: Mapping[str, Any]) -> bool:
    """Return whether a field is set, or its value is not the one in force."""
    return not field["default"] or field["state"] == WAITS


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
