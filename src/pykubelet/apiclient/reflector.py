"""Keeps a copy of a collection up to date: list, then watch, without end.

Used wherever objects of the API server are needed at hand (the pods of this node, a ConfigMap in use). A watch that
ends is resumed at the last version; if that version is too old, or the API server was unavailable for long, the
collection is listed again. (As client-go's reflector does.)
"""

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from msgspec import Struct

from pykubelet.apiclient.client import ApiClient
from pykubelet.apiclient.errors import Expired
from pykubelet.apiclient.held_objects import HeldObjects, Key, key_of
from pykubelet.apiclient.resources import Target
from pykubelet.apiclient.select import ObjectSelector
from pykubelet.apiclient.watch import Listing, UnreadObject, WatchEvent, WatchType, meta_of
from pykubelet.base.backoff import Backoff, jittered
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.models.scalars import KubeStruct

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeStruct)

_WATCH_SECONDS: Final = 300.0
"""Minimum duration of a watch; up to twice as long at random, so that watches of many nodes do not end together."""
_QUICK_END: Final = 1.0
_MAX_EMPTY_WATCHES: Final = 5
_FIRST_DELAY: Final = 0.8
_MAX_DELAY: Final = 30.0
_CALM: Final = 120.0
_LISTS_APART: Final = 60.0
"""Minimum seconds between a list and one that is made since more objects may fit."""


class Query(Struct, Generic[T], frozen=True):
    """The collection and the objects in it to follow."""

    target: Target[T]
    select: ObjectSelector


class Reflector(Generic[T]):
    """Follows one query. ``deliver`` gets all objects, first after the list and then after each change.

    An answer with an object that was not asked for is that to another request: it changes nothing.

    ``deliver`` is called from the event loop and must be quick; the mapping belongs to the reflector and must not be
    kept. An object that cannot be decoded, or is too large, is logged and keeps its last valid state, if it had one.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        query: Query[T],
        deliver: Callable[[Mapping[Key, T]], None],
        clock: Clock,
        first_delay: Seconds = _FIRST_DELAY,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._query = query
        self._deliver = deliver
        self._clock = clock
        self._rand = rand
        self._guard = Guard("watches", clock.monotonic)
        self._held = HeldObjects[T]()
        self._version = ""
        self._listed_at: Seconds = 0.0
        self._backoff = Backoff(first_delay, _MAX_DELAY, factor=2.0, reset_after=_CALM)
        self.fault: PykubeletError | None = None
        """The error of the last attempt; None if it succeeded."""
        self._stopped = False
        self._empty_watches = 0
        """Consecutive watches that ended without an event."""
        self._quick_ends = 0
        """Consecutive watches that ended at once, after an event."""
        self.listed = False
        """Whether a list has ever succeeded."""

    @property
    def unread(self) -> Mapping[Key, UnreadObject]:
        """The objects that exist and whose last version is not delivered, since it cannot be read or is too large."""
        return self._held.unread

    def stop(self) -> None:
        """Make :meth:`run` return soon; ``deliver`` calls it when nothing more can change."""
        self._stopped = True

    async def run(self) -> None:
        """Follow until cancelled or stopped. Errors of any kind are logged and retried."""
        while not self._stopped:
            with self._guard.item(self._query.target.label) as attempt:
                await self._list_and_watch()
            if attempt.error is not None:  # a defect, not an API error: the version read may be wrong
                self._version = ""
                await self._back_off(None)

    async def _list_and_watch(self) -> None:
        """List if necessary, then watch until the stream ends; errors of the API server are logged and backed off."""
        try:
            if not self._version:
                self._replace(await self._client.list(self._query.target, self._query.select))
            self.fault = None
            if not self._stopped:
                await self._follow()
        except Expired as error:
            if not self._version:
                self.fault = error
            _log.info("watch expired; listing again", extra=self._log_fields(error))
            self._version = ""
            await self._back_off(None)
        except PykubeletError as error:
            if self.fault is None:
                _log.warning("list or watch failed; retrying", extra=self._log_fields(error))
            self.fault = error
            if isinstance(error, Transient) and error.retry_after is not None:
                self._empty_watches = 0  # the server is busy; a list would add to its load
            await self._back_off(error.retry_after if isinstance(error, Transient) else None)

    async def _follow(self) -> None:
        begun = self._clock.monotonic()
        duration = _WATCH_SECONDS * (1.0 + self._rand())
        quiet = True
        self._empty_watches += 1
        if self._empty_watches > _MAX_EMPTY_WATCHES:
            # The next event cannot be read and would be sent again and again; a list skips it.
            self._version, self._empty_watches = "", 0
            return
        events = self._client.watch(self._query.target, self._query.select, self._version, duration)
        async with aclosing(events):
            async for event in events:
                quiet = False
                self._empty_watches = 0
                self._apply(event)
                if self._stopped:
                    return
                if self._held.may_hold_more() and self._clock.monotonic() - self._listed_at >= _LISTS_APART:
                    self._version = ""
                    return
        if self._clock.monotonic() - begun >= _QUICK_END:
            self._empty_watches = self._quick_ends = 0
            return
        if quiet:
            raise Transient(f"watch {self._query.target.label}: ended at once without an event")
        self._quick_ends += 1
        if self._quick_ends > 1:  # once is normal; a server that keeps doing it must not cause a busy loop
            await self._back_off(None)

    def _replace(self, listing: Listing[T]) -> None:
        for each in listing.items:
            self._check_selected(each)
        for unread in self._held.replace(listing):
            self._log_unread(unread)
        self._version = listing.resource_version
        self._listed_at = self._clock.monotonic()
        self.listed = True
        self._deliver(self._held.items)

    def _apply(self, event: WatchEvent[T]) -> None:
        if event.object is not None and event.type is not WatchType.DELETED:
            self._check_selected(event.object)
        self._backoff.reset("")
        if event.meta.resource_version:
            self._version = event.meta.resource_version
        if event.type is WatchType.BOOKMARK:
            return
        if event.type is WatchType.DELETED:
            self._held.remove(key_of(event.meta))
        else:
            self._put(event)
        self._deliver(self._held.items)

    def _put(self, event: WatchEvent[T]) -> None:
        try:
            unread = self._held.put(event)
        except Transient:
            self._version = ""  # only a list can tell whether there are as many
            raise
        if unread is not None:
            self._log_unread(unread)

    def _check_selected(self, value: T) -> None:
        if not self._query.select.matches(value):
            label, fields = self._query.target.label, self._query.select.fields
            raise Transient(f"{label}: the answer has {meta_of(value).name!r}, which {fields} does not select")

    async def _back_off(self, at_least: Seconds | None) -> None:
        # Jitter is added afterwards: inside the back-off series it would make the delays grow faster.
        delay = jittered(self._backoff.next("", self._clock.monotonic()), 1.0, self._rand)
        await self._clock.sleep(max(delay, at_least or 0.0))

    def _log_unread(self, unread: UnreadObject) -> None:
        name, size = f"{unread.meta.namespace}/{unread.meta.name}", unread.weight
        fields = {"resource": self._query.target.label, "object": name, "error": unread.fault}
        if size:
            _log.error("large object left out", extra={**fields, "bytes": size})
        else:
            _log.error("undecodable object skipped", extra=fields)

    def _log_fields(self, error: PykubeletError) -> dict[str, str]:
        return {"resource": self._query.target.label, "fields": self._query.select.fields, "error": str(error)}
