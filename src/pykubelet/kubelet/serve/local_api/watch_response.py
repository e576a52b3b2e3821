"""List and watch requests on a table of objects, as the Kubernetes API serves them: one JSON event per line."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from aiohttp import web
from msgspec import Struct, field

from pykubelet.base.concurrency.broadcast import Subscription
from pykubelet.base.concurrency.watch_table import Change, ChangeType, WatchTable
from pykubelet.kubelet.serve.common.api_status import failure
from pykubelet.kubelet.serve.common.plan.query import boolean, integer
from pykubelet.kubelet.serve.common.responses import json_response, status_response
from pykubelet.models import codec
from pykubelet.models.meta_v1 import ListMeta, ObjectMeta
from pykubelet.models.scalars import KubeStruct

T = TypeVar("T", bound=KubeStruct)

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial state (KEP-3157)."""


class _View(Struct, Generic[T]):
    """The objects that one watcher knows of."""

    matches: Callable[[T], bool]
    known: set[str] = field(default_factory=set)

    def event(self, change: Change[T]) -> tuple[ChangeType, T] | None:
        """Return the watch event for a change; None if the watcher does not know the object and need not."""
        was_known = change.key in self.known
        if change.deleted or not self.matches(change.value):
            # For this watcher, an object that no longer matches is deleted.
            self.known.discard(change.key)
            return (ChangeType.DELETED, change.value) if was_known else None
        self.known.add(change.key)
        return (ChangeType.MODIFIED if was_known else ChangeType.ADDED), change.value

    def lines(self, changes: Iterable[Change[T]]) -> bytes:
        """Return the lines for these changes."""
        events = (self.event(change) for change in changes)
        return b"".join(_line(str(event[0]), event[1]) for event in events if event is not None)


class Collection(Struct, Generic[T], frozen=True):
    """A table of objects of one kind, served as list and watch."""

    table: WatchTable[T]
    kind: str
    """Kind of one object; the list's kind is ``KINDList``."""

    async def respond(
        self,
        request: web.Request,
        matches: Callable[[T], bool],
        older: Callable[[Callable[[T], bool]], Awaitable[Sequence[T]]] | None = None,
    ) -> web.StreamResponse:
        """Answer a list or watch request for the objects that match; a list also has what ``older`` returns."""
        if boolean(request.query, "watch"):
            return await self._watch(request, matches)
        first = await older(matches) if older is not None else ()
        values = [change.value for change in self.table.changes() if matches(change.value)]
        values.extend(first)
        values.sort(key=_name)
        return json_response(
            {
                "apiVersion": "v1",
                "kind": f"{self.kind}List",
                "metadata": ListMeta(resource_version=str(self.table.version)),
                "items": values,
            }
        )

    async def _watch(self, request: web.Request, matches: Callable[[T], bool]) -> web.StreamResponse:
        version = integer(request.query, "resourceVersion")
        seconds = integer(request.query, "timeoutSeconds")
        initial = boolean(request.query, "sendInitialEvents")
        view = _View(matches)
        with self.table.subscribe() as subscription:
            if not version or initial:
                first: Iterable[Change[T]] | None = self.table.changes()
            else:
                first = self.table.since(version)
                view.known = _known_at(version, self.table.changes(), first or (), matches)
            if first is None:
                return status_response(failure(410, f"too old resource version: {version} ({self.table.version})"))
            # The bytes are built now, before the first await, so that no change comes in between.
            opening = view.lines(first) + (self._bookmark() if initial else b"")
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            if opening:
                await response.write(opening)
            try:
                async with asyncio.timeout(seconds):
                    await _tell(view, subscription, response)
            except TimeoutError:
                await response.write_eof()
        return response

    def _bookmark(self) -> bytes:
        meta = ObjectMeta(resource_version=str(self.table.version), annotations={_INITIAL_EVENTS_END: "true"})
        return _line("BOOKMARK", {"apiVersion": "v1", "kind": self.kind, "metadata": meta})


def _known_at(
    version: int, present: Iterable[Change[T]], later: Iterable[Change[T]], matches: Callable[[T], bool]
) -> set[str]:
    """Return the keys of the objects that a list at that version may have shown.

    Earlier states of objects are not kept, so an object that does not match now counts as shown: the client must not
    keep it as a stale object.
    """
    known = {c.key for c in present if c.created <= version and (c.version > version or matches(c.value))}
    return known | {c.key for c in later if c.created <= version}


async def _tell(view: _View[T], subscription: Subscription[str, Change[T]], response: web.StreamResponse) -> None:
    while True:
        for change in await subscription.take():
            # One write per change: the text of all pending changes of a slow client must not be held in memory.
            line = view.lines((change,))
            if line:
                await response.write(line)


def _line(kind: str, value: object) -> bytes:
    return codec.encode({"type": kind, "object": value}) + b"\n"


def _name(value: KubeStruct) -> tuple[str, str]:
    meta: object = getattr(value, "metadata", None)
    return (meta.namespace, meta.name) if isinstance(meta, ObjectMeta) else ("", "")
