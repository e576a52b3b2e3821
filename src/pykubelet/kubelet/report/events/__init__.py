"""Events: recorded by all stages, combined and counted, kept in memory for the local API.

Implements :class:`pykubelet.kubelet.types.events.EventRecorder`; read by the local API server.
"""

from pykubelet.kubelet.report.events.manager import EventLog
from pykubelet.kubelet.report.events.types import EventConfig

__all__ = ["EventConfig", "EventLog"]
