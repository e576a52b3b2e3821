"""The reason why the node is not ready, and the period of the reads of what its object shows. Pure.

Texts are those of the Go kubelet (``pkg/kubelet/nodestatus``), since people and controllers know them.
"""

from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.runtime import RuntimeConditions

_PLEG_PATIENCE: Final[Seconds] = 10.0
"""Time that a new agent has for its first list of pods before the missing list makes the node unready."""
_IMAGES_EVERY: Final[Seconds] = 60.0
"""Images seldom change, and listing them is expensive for the runtime."""


def readiness_faults(
    *, runtime: RuntimeConditions, pleg: str | None, shutdown: str | None, age: Seconds
) -> tuple[str, ...]:
    """Return the reasons why the node is not ready; empty: it is ready.

    ``pleg`` and ``shutdown`` are the faults of PLEG and of a shutdown that has begun; ``age`` is that of the agent.
    """
    found = []
    if not runtime.responding:
        found.append(f"container runtime is down: {runtime.message}")
    elif not runtime.runtime_ready:
        found.append(f"container runtime not ready: {runtime.message}")
    elif not runtime.network_ready:
        found.append(f"container runtime network not ready: {runtime.message}")
    if pleg and age >= _PLEG_PATIENCE:
        found.append(f"PLEG is not healthy: {pleg}")
    if shutdown:
        found.append(shutdown)
    return tuple(found)


def images_are_due(listed: Seconds | None, now: Seconds) -> bool:
    """Return whether to list the images again; ``listed`` is the time of the last list, None before the first."""
    return listed is None or now - listed >= _IMAGES_EVERY
