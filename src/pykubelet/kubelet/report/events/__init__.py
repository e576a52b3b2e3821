"""Events: recorded by all stages, combined and counted, kept in memory and sent to the API server.

Implements :class:`pykubelet.kubelet.types.reports.events.EventRecorder`; read by the local API server. Start reading in
``event_log.py``. Imports no package beside it.
"""

from pykubelet.kubelet.report.events.event_log import EventLog
from pykubelet.kubelet.report.events.event_types import EventConfig

__all__ = ["EventConfig", "EventLog"]
