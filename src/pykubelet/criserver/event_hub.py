"""Distributes events to the bounded queue of each subscriber; a subscriber that is too slow is disconnected."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from enum import Enum

from msgspec import Struct

from pykubelet.base.errors import Transient

_log = logging.getLogger(__name__)
_QUEUE = 4096


class EventKind(Enum):
    """The kind of an event."""

    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    DELETED = "deleted"


class Event(Struct, frozen=True):
    """An event of a container or sandbox. ``id``: a container's, or the sandbox's own; ``at``: ns since the epoch."""

    id: str
    sandbox: str
    kind: EventKind
    at: int


class EventHub:
    """The subscribers of events. ``publish`` never waits."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Event | None]] = set()

    def publish(self, event: Event) -> None:
        """Send an event to all subscribers."""
        for queue in tuple(self._queues):
            if queue.qsize() >= _QUEUE:
                # The client lists again when its stream breaks; it would not notice a missing event.
                self._queues.discard(queue)
                queue.put_nowait(None)
                _log.warning("event subscriber disconnected: too slow")
            else:
                queue.put_nowait(event)

    async def subscribe(self) -> AsyncGenerator[Event, None]:
        """Yield all events from now on. Transient: the subscriber was too slow."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._queues.discard(queue)
        raise Transient("too slow: events were lost; list again")
