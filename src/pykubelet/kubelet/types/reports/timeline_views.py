"""Views of a pod's start: its steps, ready to be drawn as bars."""

from typing import Literal

from msgspec import Struct

Kind = Literal["start", "restart"]


class StepView(Struct, frozen=True, kw_only=True):
    """One step, drawn as one bar. Times are in seconds."""

    step: str
    container: str = ""
    start_s: float
    """Offset from the beginning of the start."""
    duration_s: float
    """Duration so far if the step has not ended; 0 for a point in time."""
    error: str = ""
    """The error that ended the step; empty: none."""
    running: bool = False
    """The step has not ended yet."""


class TimelineView(Struct, frozen=True, kw_only=True):
    """One start of a pod. Times are in seconds."""

    pod: str
    """``NAMESPACE/NAME``."""
    uid: str
    kind: Kind = "start"
    """``restart``: a restart of containers after the pod was ready."""
    started_at: float
    """Unix time of the start's beginning."""
    steps: tuple[StepView, ...] = ()
    total_s: float
    """Time from the beginning until the pod was ready, or until now."""
    ready: bool = False
    """The pod became ready, which ends the start."""
    earlier: tuple["TimelineView", ...] = ()
    """Earlier starts, the latest first."""
