"""Figures of the live view: usage as text and as a small chart, ages in one unit. Pure."""

from collections.abc import Sequence
from typing import Final

from pykubelet.base.units import Seconds

_LEVELS: Final = "▁▂▃▄▅▆▇"
"""Without the full block, so that the charts of two rows do not touch."""
_ASCII_LEVELS: Final = "_.-=+*#"
_UNITS: Final = (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40))


def chart(values: Sequence[float | None], width: int, *, least: float, ascii_only: bool = False) -> str:
    """Return the last ``width`` values as bars of seven heights, on the right.

    The scale begins at 0 and ends at the largest value, but at ``least`` at least, so that noise stays low. What was
    not measured (None) is blank.
    """
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    shown = list(values)[-width:] if width else []
    top = max(least, *(value for value in (*shown, 0.0) if value is not None))
    bars = (" " if value is None else levels[min(6, int(value / top * 7))] for value in shown)
    return "".join(bars).rjust(width)


def cores(nano: int | None) -> str:
    """Format billionths of a core: ``12m``, from ten cores on ``12.3``; ``-`` if it is unknown."""
    if nano is None:
        return "-"
    milli = -(-nano // 1_000_000)
    return f"{milli}m" if milli < 10_000 else f"{milli / 1000:.1f}"


def memory(count: int | None) -> str:
    """Format bytes in a unit of which there are less than 1000: ``31Mi``, ``1.2Gi``; ``-`` if it is unknown."""
    if count is None:
        return "-"
    name, unit = next(((name, unit) for name, unit in _UNITS if count < 1000 * unit), _UNITS[-1])
    value = count / unit
    return f"{value:.1f}{name}" if value < 10 and unit > _UNITS[1][1] else f"{value:.0f}{name}"


def short_age(seconds: Seconds) -> str:
    """Format a time span in its largest unit: ``45s``, ``12m``, ``3h``, ``9d``."""
    whole = max(0, int(seconds))
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "m"), (48 * 3600, 3600, "h")):
        if whole < limit:
            return f"{whole // unit}{name}"
    return f"{whole // 86400}d"
