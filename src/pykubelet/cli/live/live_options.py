"""Options of the live view, as its callers choose them; quick to import."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.units import Seconds


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Options of the live view: the pods to show, their order, the pace.

    ``interval`` is the time between two measurements; ``alive`` is asked once per interval whether the view goes on.
    """

    socket: Path
    namespace: str = ""
    """Only this namespace; empty: all."""
    name: str = ""
    """Only the pod of this name, or those whose names begin with it and a hyphen; empty: all."""
    interval: Seconds = 2.0
    sort_by: str = "name"
    """A value of `pykubelet.cli.live.plan.view_state.Sort`."""
    hint: str = ""
    """A line above the pods."""
    alive: Callable[[], bool] = _always
