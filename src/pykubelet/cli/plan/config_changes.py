"""The effect of changes of configuration fields (live, restart, none), in words. Pure; shell completion imports it."""

from collections.abc import Mapping
from typing import Any, Final

CHANGES: Final = {"live": "applied live", "restart": "needs a restart", "none": "no effect"}


def change_of(field: Mapping[str, Any]) -> str:
    """Return what a change of a field, as the agent reports it, needs."""
    return str(CHANGES.get(field["onChange"], field["onChange"]))
