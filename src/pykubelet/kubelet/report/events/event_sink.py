"""Sends events to the API server, in the background and with low priority.

The event log has combined and counted them already. Repetitions during a request are sent as the event's newest state;
while the API server is unavailable, events wait within the event log's own bounds. Events are sent with a small delay,
by when the pod they are about has probably started: until then the machine and the API server have more urgent work.
Warnings and the ends of pulls are sent at once (``plan/send_order.py``).
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from pykubelet.apiclient import AlreadyExists, ApiClient, ServerError
from pykubelet.apiclient.resources import EVENTS
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.broadcast import Subscription
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.concurrency.watch_table import Change, WatchTable
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.events.plan.send_order import SendOrder, is_urgent
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import Event
from pykubelet.models.meta_v1 import ObjectMeta

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 10.0
_REMEMBERED: Final = 4096
_LATER: Final = 0.5
_TRIES: Final = 3
"""Attempts at an event at which the API server fails."""
_FLUSH_SECONDS: Final = 1.0
"""Time limit for pending events when the agent stops."""


class EventSink:
    """Sends the event log's events, and their repetitions, to the API server."""

    def __init__(
        self,
        *,
        client: ApiClient,
        table: WatchTable[Event],
        limit: RateLimit,
        clock: Clock,
        is_old: Callable[[Change[Event]], bool] = lambda change: False,
    ) -> None:
        """``is_old`` tells whether an earlier agent has sent an event of the table."""
        self._is_old = is_old
        self._client = client
        self._table = table
        self._limit = limit
        self._clock = clock
        self._guard = Guard("events.delivery", clock.monotonic)
        self._sent: OrderedDict[str, None] = OrderedDict()
        """Keys of events that the API server has accepted."""

    def reconfigure(self, rate: tuple[float, int]) -> None:
        """Send so many events per second from now on, with this burst."""
        self._limit.change(*rate)

    async def run(self) -> None:
        """Send present and future events until cancelled."""
        order: SendOrder[Change[Event]] = SendOrder(_LATER, self._table.limit)
        with self._table.subscribe() as changes:
            for change in self._table.changes():
                if not self._is_old(change):
                    order.add(change.key, change, about="", urgent=True, now=0.0)
            try:
                while True:
                    now = self._clock.monotonic()
                    self._take_over(changes.drain(), order, now)
                    first = order.first(now)
                    if first is None:
                        await self._wait(changes, order.seconds(now))
                        continue
                    with self._guard.item(first.key):
                        await self._deliver(first)
                    order.remove(first.key)
            finally:
                self._take_over(changes.drain(), order, self._clock.monotonic())
                await self._flush(order)

    def _take_over(self, changes: Iterable[Change[Event]], order: SendOrder[Change[Event]], now: Seconds) -> None:
        """Put news in the order of what is to be sent."""
        for change in changes:
            if change.deleted:
                order.remove(change.key)
            else:
                event = change.value
                about = event.involved_object.uid
                order.add(change.key, change, about=about, urgent=is_urgent(event), now=now)

    async def _wait(self, changes: Subscription[str, Change[Event]], seconds: Seconds | None) -> None:
        """Wait for news, at most so long; None: without an end."""
        timer = None if seconds is None else self._clock.call_later(seconds, changes.wake)
        try:
            await changes.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _flush(self, changes: Iterable[Change[Event]]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                for change in changes:
                    try:
                        await self._send(change)
                    except PykubeletError as error:
                        if isinstance(error, Transient) and not isinstance(error, ServerError):
                            return  # the API server is unavailable

    async def _deliver(self, change: Change[Event]) -> None:
        """Send one event; wait while the API server is unavailable, give up when it rejects the event or fails at it.

        An event at which it fails, since an admission webhook is down, must not keep those of all other pods waiting.
        """
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.5)
        failures = 0
        while True:
            await self._limit.take()
            try:
                await self._send(change)
            except Transient as error:
                failures += isinstance(error, ServerError)
                if failures >= _TRIES:
                    fields = {"event": change.key, "attempts": failures, "error": str(error)}
                    _log.warning("event given up: the API server fails at it", extra=fields)
                    return
                delay = max(backoff.next("", self._clock.monotonic()), error.retry_after or 0.0)
                _log.debug("event not delivered; retrying", extra={"event": change.key, "error": str(error)})
                await self._clock.sleep(delay)
                continue
            except PykubeletError as error:
                _log.warning("event rejected by the API server", extra={"event": change.key, "error": str(error)})
            return

    async def _send(self, change: Change[Event]) -> None:
        event, key = change.value, change.key
        namespace, name = event.metadata.namespace, event.metadata.name
        if key in self._sent:
            try:
                await self._client.patch(EVENTS.at(namespace, name), _repetition(event))
                return
            except NotFound:
                del self._sent[key]  # it has expired there
        meta = ObjectMeta(name=name, namespace=namespace, annotations=event.metadata.annotations)
        bare = replace(event, metadata=meta)
        try:
            await self._client.create(EVENTS.all(namespace), bare)
        except AlreadyExists:
            await self._client.patch(EVENTS.at(namespace, name), _repetition(event))
        self._sent[key] = None
        if len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)


def _repetition(event: Event) -> object:
    """Return the fields that a repetition changes, as a patch."""
    plain = to_builtins(event)
    assert isinstance(plain, dict)
    return {name: plain.get(name) for name in ("count", "lastTimestamp", "message")}
