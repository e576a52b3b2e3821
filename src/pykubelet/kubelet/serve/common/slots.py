"""Limits concurrent requests: separate slots for short requests, streams and commands; health checks always pass.

Streams last as long as their clients like, so they never take slots of short requests. Short requests have a deadline
that includes sending the answer, so a client that does not read cannot hold its slot. Commands, whose output is held in
memory, have few slots. One user cannot take all slots.
"""

import asyncio
import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, assert_never

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.http.hangup import keep_alive
from pykubelet.base.units import KIB
from pykubelet.kubelet.serve.common.api_status import failure
from pykubelet.kubelet.serve.common.connections import source_of
from pykubelet.kubelet.serve.common.limits import SlotLimits
from pykubelet.kubelet.serve.common.plan.query import boolean
from pykubelet.kubelet.serve.common.plan.request_kind import RequestKind, request_kind
from pykubelet.kubelet.serve.common.responses import matched_pattern
from pykubelet.models.meta_v1 import Status, StatusDetails

_PIECE: Final = 64 * KIB
USER: Final = web.RequestKey("user", str)
"""The authenticated user of the request, where the server authenticates."""


class Slots:
    """The request slots of one server. ``show`` formats the 429 answer."""

    def __init__(self, limits: SlotLimits, show: Callable[[Status], web.Response]) -> None:
        self._deadline = limits.deadline
        self._short = _SlotPool(kind=RequestKind.SHORT, total=limits.short, per_user=limits.short_per_user)
        self._streams = _SlotPool(kind=RequestKind.STREAM, total=limits.streams, per_user=limits.streams_per_user)
        self._commands = _SlotPool(kind=RequestKind.COMMAND, total=limits.commands, per_user=limits.commands_per_user)
        self._show = show

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._serve(request, handler)

        self.middleware: Middleware = middleware

    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        match _kind(request):
            case RequestKind.HEALTH:
                return await handler(request)
            case RequestKind.SHORT:
                pool, answer = self._short, self._within_deadline
            case RequestKind.STREAM:
                pool, answer = self._streams, _without_deadline
            case RequestKind.COMMAND:
                pool, answer = self._commands, self._sent_within_deadline
            case other:
                assert_never(other)
        user = request.get(USER) or request_source(request)
        if (full := pool.full(user)) is not None:
            return self._show(failure(429, full, details=StatusDetails(retry_after_seconds=1)))
        with pool.taken(user):
            return await answer(request, handler)

    async def _sent_within_deadline(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler without a deadline, then send its answer within the deadline."""
        response = await handler(request)

        async def ready(_: web.Request) -> web.StreamResponse:
            return response

        return await self._within_deadline(request, ready)

    async def _within_deadline(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler and send its answer. Transient: the deadline passed before anything was sent."""
        response: web.StreamResponse | None = None
        limit = asyncio.timeout(self._deadline)
        try:
            async with limit:
                response = await handler(request)
                _split_body(response)
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError as error:
            if not limit.expired():
                raise
            if response is None:
                text = f"{request.method} {request.path} timed out after {self._deadline:g} s"
                raise Transient(text, retry_after=1.0) from error
            if request.transport is not None:
                request.transport.abort()
        assert response is not None, "without one, the deadline has passed"
        return response


def request_source(request: web.BaseRequest) -> str:
    """Return the source of the request, which stands for the user where that is unknown."""
    transport = request.transport
    return source_of(None if transport is None else transport.get_extra_info("peername"))


def _kind(request: web.Request) -> RequestKind:
    try:
        watch = boolean(request.query, "watch")
    except Invalid:
        watch = False  # the handler rejects it
    return request_kind(matched_pattern(request), watch=watch, log_query="query" in request.query)


def _split_body(response: web.StreamResponse) -> None:
    """Make a large body be written in pieces: TLS transports buffer one piece of any size without backpressure."""
    if isinstance(response, web.Response) and isinstance(response.body, bytes) and len(response.body) > _PIECE:
        response.body = io.BytesIO(response.body)


async def _without_deadline(request: web.Request, handler: Handler) -> web.StreamResponse:
    # Without keep-alive probes, a client whose machine has died would hold its slot for hours.
    if request.transport is not None:
        keep_alive(request.transport)
    return await handler(request)


class _SlotPool:
    """Slots for requests of one kind."""

    def __init__(self, *, kind: RequestKind, total: int, per_user: int) -> None:
        self._kind = kind
        self._total = total
        self._per_user = per_user
        self._users: Counter[str] = Counter()

    def full(self, user: str) -> str | None:
        """Return why no slot is available to the user now; None if one is."""
        if self._users.total() >= self._total:
            return f"too many {self._kind} at once (the server answers {self._total}); try again later"
        if self._users[user] >= self._per_user:
            return f"too many {self._kind} of {user} at once (the limit is {self._per_user})"
        return None

    @contextmanager
    def taken(self, user: str) -> Iterator[None]:
        """Hold a slot for the user within the block."""
        self._users[user] += 1
        try:
            yield
        finally:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]
