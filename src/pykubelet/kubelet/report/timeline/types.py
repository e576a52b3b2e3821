"""What the timeline shows: the steps of one start of a pod, ready to be drawn as bars."""

from typing import Literal

from msgspec import Struct

Kind = Literal["start", "restart"]


class StepView(Struct, frozen=True, kw_only=True):
    """One bar. Times are seconds."""

    step: str
    container: str = ""
    start_s: float
    """From the beginning of the start."""
    duration_s: float
    """So far, if the step is still going on; 0 for a point in time."""
    error: str = ""
    """How it failed; empty if it has not."""
    running: bool = False
    """It has not ended yet."""


class TimelineView(Struct, frozen=True, kw_only=True):
    """One start of a pod."""

    pod: str
    """``NAMESPACE/NAME``."""
    uid: str
    kind: Kind = "start"
    """``restart``: of containers of a pod that had been ready."""
    started_at: float
    """Unix time of its beginning."""
    steps: tuple[StepView, ...] = ()
    total_s: float
    """From its beginning until the pod was ready, or until now."""
    ready: bool = False
    """The pod became ready: the start is over."""
    earlier: tuple["TimelineView", ...] = ()
    """Starts before this one, the latest first."""
