"""The timeline: how long each step of a pod's start took.

Implements :class:`pykubelet.kubelet.types.reports.timeline.Timeline` for all stages; read by the local API server.
``traced_timeline.py`` records the same steps as spans of OpenTelemetry, if that is configured. Start reading at
``timeline_recorder.py``. Imports no package beside it.
"""

from pykubelet.kubelet.report.timeline.timeline_recorder import PodTimelines
from pykubelet.kubelet.report.timeline.traced_timeline import TracedTimeline
from pykubelet.kubelet.types.reports.timeline_views import StepView, TimelineView

__all__ = ["PodTimelines", "StepView", "TimelineView", "TracedTimeline"]
