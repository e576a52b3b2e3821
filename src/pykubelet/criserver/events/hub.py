"""Hands each event to every subscriber's own bounded queue; a slow one is cut off rather than waited for."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import Enum

from pykubelet.base.errors import Transient

_log = logging.getLogger(__name__)
_QUEUE = 4096


class EventKind(Enum):
    """What happened."""

    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Event:
    """``id`` is a container's, or the sandbox's own when the event is about that; ``at`` is in nanoseconds."""

    id: str
    sandbox: str
    kind: EventKind
    at: int


class EventHub:
    """All subscribers. ``publish`` never waits."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Event | None]] = set()

    def publish(self, event: Event) -> None:
        """Tell everybody."""
        for queue in tuple(self._queues):
            if queue.qsize() >= _QUEUE:
                # It lists anew when its stream breaks; an event silently missing would mislead it.
                self._queues.discard(queue)
                queue.put_nowait(None)
                _log.warning("a subscriber of events is too slow and was cut off")
            else:
                queue.put_nowait(event)

    async def subscribe(self) -> AsyncGenerator[Event, None]:
        """All events from now on. Transient when the subscriber was too slow."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._queues.discard(queue)
        raise Transient("too slow: events were lost; list again")
