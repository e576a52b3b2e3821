"""The order in which events are sent to the API server, and when. Pure: the time is an argument."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.reports.events import SUCCESSFULLY_PULLED, WARNING, Reason
from pykubelet.models.core_v1 import Event

T = TypeVar("T")


def is_urgent(event: Event) -> bool:
    """Whether the event is to be seen at once: a warning, or the end of a pull.

    A pull takes so long that a request more does not delay its pod.
    """
    pulled = event.reason == Reason.PULLED_IMAGE and event.message.startswith(SUCCESSFULLY_PULLED)
    return event.type == WARNING or pulled


class _WaitingEvent(Struct, Generic[T]):
    """An event that waits to be sent."""

    item: T
    about: str
    due: Seconds
    """Monotonic time from which on it is sent."""


class SendOrder(Generic[T]):
    """The events that wait to be sent, each with its newest state.

    All events that come within the delay after one are sent together at its end. An urgent event is sent at once, ahead
    of others, but after the earlier events about the same object.
    """

    def __init__(self, delay: Seconds, limit: int) -> None:
        """``limit``: beyond so many events the oldest is dropped."""
        self._delay = delay
        self._limit = limit
        self._end = 0.0
        """Monotonic time at which the newest delay ends."""
        self._urgent: dict[str, _WaitingEvent[T]] = {}
        self._others: dict[str, _WaitingEvent[T]] = {}

    def __iter__(self) -> Iterator[T]:
        """Iterate over what is still to be sent, in order."""
        return (waiting.item for events in (self._urgent, self._others) for waiting in events.values())

    def add(self, key: str, item: T, *, about: str, urgent: bool, now: Seconds) -> None:
        """Add an event or its newest state. ``about``: the uid of the object."""
        for events in (self._urgent, self._others):
            if key in events:
                events[key].item = item
                return
        if urgent:
            self._hurry(about, now)
            self._urgent[key] = _WaitingEvent(item, about, now)
        else:
            if now >= self._end:
                self._end = now + self._delay
            self._others[key] = _WaitingEvent(item, about, self._end)
        if len(self._urgent) + len(self._others) > self._limit:
            self._drop_oldest()

    def remove(self, key: str) -> None:
        """Remove an event: it has been sent, or there is nothing to send any more."""
        self._urgent.pop(key, None)
        self._others.pop(key, None)

    def first(self, now: Seconds) -> T | None:
        """Return the event to be sent now; None: there is none yet."""
        waiting = self._next()
        return waiting.item if waiting is not None and waiting.due <= now else None

    def seconds(self, now: Seconds) -> Seconds | None:
        """Return the time until an event is to be sent; None: none waits."""
        waiting = self._next()
        return None if waiting is None else max(0.0, waiting.due - now)

    def _next(self) -> _WaitingEvent[T] | None:
        return next((waiting for events in (self._urgent, self._others) for waiting in events.values()), None)

    def _drop_oldest(self) -> None:
        oldest = min((events for events in (self._urgent, self._others) if events), key=_first_due)
        del oldest[next(iter(oldest))]

    def _hurry(self, about: str, now: Seconds) -> None:
        """Send what waits about an object before what comes now."""
        for key in [key for key, waiting in self._others.items() if waiting.about == about]:
            self._urgent[key] = self._others.pop(key)
            self._urgent[key].due = now


def _first_due(events: dict[str, _WaitingEvent[T]]) -> Seconds:
    return next(iter(events.values())).due
