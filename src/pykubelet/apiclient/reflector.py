"""Keeps a copy of a collection up to date: list, then watch from there on, for ever.

Whoever needs objects of the API server at hand (the pods of this node, a ConfigMap in use) runs one of these. A watch
that ends is resumed at the version seen last; one whose version is too old, or an API server that was away for long,
leads to a new list. (The way of client-go's reflector.)
"""

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pykubelet.apiclient.client import ApiClient, Select
from pykubelet.apiclient.errors import Expired
from pykubelet.apiclient.resources import Target
from pykubelet.apiclient.watch import Listing, WatchEvent, WatchType, meta_of
from pykubelet.base.backoff import Backoff, jittered
from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import KubeStruct

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeStruct)

_WATCH_SECONDS: Final = 300.0
"""A watch lives so long, and up to twice as long at random, so that those of many nodes do not end together."""
_QUICK_END: Final = 1.0
_MOST_FRUITLESS: Final = 5
_FIRST_DELAY: Final = 0.8
_MAX_DELAY: Final = 30.0
_CALM: Final = 120.0

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """What to follow."""

    target: Target[T]
    select: Select


class Reflector(Generic[T]):
    """Follows one query. ``deliver`` gets all objects, first after the list and then after each change.

    It is called from the event loop and must be quick; the mapping is the reflector's own, not to be kept. An object
    that cannot be decoded is logged and keeps its last good state, if it had one.
    """

    def __init__(
        self,
        client: ApiClient,
        query: Query[T],
        deliver: Callable[[Mapping[Key, T]], None],
        clock: Clock,
        first_delay: Seconds = _FIRST_DELAY,
    ) -> None:
        self._client = client
        self._query = query
        self._deliver = deliver
        self._clock = clock
        self._guard = Guard("watches", clock.monotonic)
        self._items: dict[Key, T] = {}
        self._version = ""
        self._backoff = Backoff(first_delay, _MAX_DELAY, 2.0, _CALM)
        self.fault: PykubeletError | None = None
        """Why the last attempt failed; None while all is well."""
        self._stopped = False
        self._fruitless = 0
        """Watches in a row that ended without an event."""
        self._quick_ends = 0
        """Watches in a row that ended at once with one."""
        self.listed = False
        """Whether a list has succeeded ever."""

    def stop(self) -> None:
        """End :meth:`run` soon; to be called by ``deliver`` when nothing more can change."""
        self._stopped = True

    async def run(self) -> None:
        """Follow until cancelled or stopped. Errors of any kind are logged and outlived."""
        while not self._stopped:
            with self._guard.item(self._query.target.label) as attempt:
                await self._list_and_watch()
            if attempt.error is not None:  # no fault of the API server: what was read may not be sound
                self._version = ""
                await self._rest(None)

    async def _list_and_watch(self) -> None:
        """List if need be, then watch until the stream ends; errors of the API server are logged and waited for."""
        try:
            if not self._version:
                self._replace(await self._client.list(self._query.target, self._query.select))
            self.fault = None
            if not self._stopped:
                await self._follow()
        except Expired as error:
            _log.info("watch is too old, listing again", extra=self._about(error))
            self._version = ""
            await self._rest(None)
        except PykubeletError as error:
            if self.fault is None:
                _log.warning("list or watch failed, trying again", extra=self._about(error))
            self.fault = error
            if isinstance(error, Transient) and error.retry_after is not None:
                self._fruitless = 0  # the server is busy; a list would only cost it more
            await self._rest(error.retry_after if isinstance(error, Transient) else None)

    async def _follow(self) -> None:
        begun = self._clock.monotonic()
        duration = _WATCH_SECONDS * (1.0 + random.random())
        quiet = True
        self._fruitless += 1
        if self._fruitless > _MOST_FRUITLESS:
            # What comes next cannot be read, and would be sent again and again: a list gets past it.
            self._version, self._fruitless = "", 0
            return
        events = self._client.watch(self._query.target, self._query.select, self._version, duration)
        async with aclosing(events):
            async for event in events:
                quiet = False
                self._fruitless = 0
                self._take(event)
                if self._stopped:
                    return
        if self._clock.monotonic() - begun >= _QUICK_END:
            self._fruitless = self._quick_ends = 0
            return
        if quiet:
            raise Transient(f"watch {self._query.target.label}: ended at once without an event")
        self._quick_ends += 1
        if self._quick_ends > 1:  # once is chance; a server that does so all the time must not make us spin
            await self._rest(None)

    def _replace(self, listing: Listing[T]) -> None:
        items = {_key(meta_of(each)): each for each in listing.items}
        for meta, fault in listing.faults:
            self._complain(meta, fault)
            if (old := self._items.get(_key(meta))) is not None:
                items[_key(meta)] = old
        self._items = items
        self._version = listing.resource_version
        self.listed = True
        self._deliver(self._items)

    def _take(self, event: WatchEvent[T]) -> None:
        self._backoff.reset("")
        if event.meta.resource_version:
            self._version = event.meta.resource_version
        match event:
            case WatchEvent(type=WatchType.BOOKMARK):
                return
            case WatchEvent(type=WatchType.DELETED, meta=meta):
                self._items.pop(_key(meta), None)
            case WatchEvent(object=None):
                self._complain(event.meta, event.fault)
                return
            case WatchEvent(object=value) if value is not None:
                self._items[_key(event.meta)] = value
        self._deliver(self._items)

    async def _rest(self, at_least: Seconds | None) -> None:
        # The chance is not part of the series, which would grow faster by it.
        delay = jittered(self._backoff.next("", self._clock.monotonic()), 1.0)
        await self._clock.sleep(max(delay, at_least or 0.0))

    def _complain(self, meta: ObjectMeta, fault: str) -> None:
        name = f"{meta.namespace}/{meta.name}"
        _log.error(
            "object cannot be decoded, left out",
            extra={"resource": self._query.target.label, "object": name, "error": fault},
        )

    def _about(self, error: PykubeletError) -> dict[str, str]:
        return {"resource": self._query.target.label, "fields": self._query.select.fields, "error": str(error)}


def _key(meta: ObjectMeta) -> Key:
    return (meta.namespace, meta.name)
