"""The timeline: how long each step of a pod's start took.

Implements :class:`pykubelet.kubelet.types.timeline.Timeline` for all stages; read by the local API server.
Start reading at ``timeline_recorder.py``.
"""

from pykubelet.kubelet.report.timeline.timeline_recorder import PodTimelines
from pykubelet.kubelet.types.timeline_views import StepView, TimelineView

__all__ = ["PodTimelines", "StepView", "TimelineView"]
