"""Time limits of a start, so that calls are answered within 10 s; and whether it follows a reboot. Pure."""

from typing import Final

from pykubelet.base.units import Seconds

COMMANDS: Final[Seconds] = 3.0
"""Time to kill the processes that commands of the former server have started; a command may fork without end."""
_REPAIRS: Final[Seconds] = 3.0
"""Longest wait for the first attempts of repairs, unless the start has taken long already."""
_START: Final[Seconds] = 9.0
"""A start that has taken as long waits for nothing any more."""


def time_for_repairs(taken: Seconds) -> Seconds:
    """Longest wait for the first attempts of repairs, of a start that has taken this time."""
    return max(0.0, min(_REPAIRS, _START - taken))


def was_rebooted(last: str, boot: str) -> bool:
    """Whether the machine was rebooted since the ``last`` boot id was stored; empty: none was, at the first start."""
    return last not in ("", boot)
