"""Container events for subscribers (CRI ``GetContainerEvents``).

Imports nothing else of the server; start reading at ``hub.py``.
"""

from pykubelet.criserver.events.hub import Event, EventHub, EventKind

__all__ = ["Event", "EventHub", "EventKind"]
