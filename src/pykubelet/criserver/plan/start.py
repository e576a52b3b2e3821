"""How long a start may wait for what, so that calls are answered within 10 s; and whether it follows a reboot. Pure."""

from typing import Final

from pykubelet.base.units import Seconds

COMMANDS: Final[Seconds] = 3.0
"""How long it kills what commands of the server before have started; a command may fork without end."""
_REPAIRS: Final[Seconds] = 3.0
"""How long it waits for the first attempts of repairs, unless it has taken long already."""
_START: Final[Seconds] = 9.0
"""A start that has taken as long waits for nothing any more."""


def time_for_repairs(taken: Seconds) -> Seconds:
    """How long a start that has taken this time may wait for the first attempts of repairs."""
    return max(0.0, min(_REPAIRS, _START - taken))


def was_rebooted(last: str, boot: str) -> bool:
    """Whether the machine was rebooted since the ``last`` boot id was stored; empty: none was, at the first start."""
    return last not in ("", boot)
