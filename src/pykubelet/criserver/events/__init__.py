"""Container events for subscribers (CRI ``GetContainerEvents``)."""

from pykubelet.criserver.events.hub import Event, EventHub, EventKind

__all__ = ["Event", "EventHub", "EventKind"]
