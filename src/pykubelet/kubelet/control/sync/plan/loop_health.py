"""Decides after which time without a handled event the sync loop is considered stuck. Pure."""

from typing import Final

from pykubelet.base.units import Seconds

_STUCK: Final[Seconds] = 300.0
"""The sync loop may do nothing for so long, at least: as in the Go kubelet, a starved machine is not a stuck loop."""


def stuck_after(sync_frequency: Seconds) -> Seconds:
    """Return how long the loop may leave an event unhandled; ``sync_frequency`` is that of the configuration."""
    return max(_STUCK, 2 * sync_frequency)
