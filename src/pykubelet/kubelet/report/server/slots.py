"""How many requests a server answers at once: followed logs and commands apart from short requests, health always.

Streams last as long as their clients like, so they never take the places of short requests, which have a deadline that
covers the sending of their answers: a client that does not read cannot keep its place. Requests whose output is held
in memory are few. One user cannot take all places.
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
from pykubelet.base.hangup import keep_alive
from pykubelet.base.units import KIB
from pykubelet.kubelet.report.server.api_status import failure
from pykubelet.kubelet.report.server.compute_query import boolean
from pykubelet.kubelet.report.server.connections import source_of
from pykubelet.kubelet.report.server.decide_kind import Kind, request_kind
from pykubelet.kubelet.report.server.limits import SlotLimits
from pykubelet.kubelet.report.server.responses import matched_pattern
from pykubelet.models.meta_v1 import Status, StatusDetails

_PIECE: Final = 64 * KIB
USER: Final = web.RequestKey("user", str)
"""Who sends the request, where the server knows it."""


class Slots:
    """The places of one server. ``show`` makes the answer to a request too many."""

    def __init__(self, limits: SlotLimits, show: Callable[[Status], web.Response]) -> None:
        self._deadline = limits.deadline
        self._short = _Places(Kind.SHORT, limits.short, limits.short_per_user)
        self._streams = _Places(Kind.STREAM, limits.streams, limits.streams_per_user)
        self._commands = _Places(Kind.COMMAND, limits.commands, limits.commands_per_user)
        self._show = show

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._serve(request, handler)

        self.middleware: Middleware = middleware

    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        match _kind(request):
            case Kind.HEALTH:
                return await handler(request)
            case Kind.SHORT:
                places, answer = self._short, self._in_time
            case Kind.STREAM:
                places, answer = self._streams, _as_long_as_it_lasts
            case Kind.COMMAND:
                places, answer = self._commands, self._sent_in_time
            case other:
                assert_never(other)
        user = request.get(USER) or request_source(request)
        if (full := places.full(user)) is not None:
            return self._show(failure(429, full, details=StatusDetails(retry_after_seconds=1)))
        with places.taken(user):
            return await answer(request, handler)

    async def _sent_in_time(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer in any time, but send the answer within the deadline."""
        response = await handler(request)

        async def ready(_: web.Request) -> web.StreamResponse:
            return response

        return await self._in_time(request, ready)

    async def _in_time(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer, and send the answer. Transient: the deadline has passed before anything was sent."""
        response: web.StreamResponse | None = None
        limit = asyncio.timeout(self._deadline)
        try:
            async with limit:
                response = await handler(request)
                _in_pieces(response)
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError as error:
            if not limit.expired():
                raise
            if response is None:
                text = f"{request.method} {request.path} was not answered within {self._deadline:g} s"
                raise Transient(text, retry_after=1.0) from error
            if request.transport is not None:
                request.transport.abort()
        assert response is not None, "without one, the deadline has passed"
        return response


def request_source(request: web.BaseRequest) -> str:
    """Where the request comes from, which stands for its user while no one knows that."""
    transport = request.transport
    return source_of(None if transport is None else transport.get_extra_info("peername"))


def _kind(request: web.Request) -> Kind:
    try:
        watch = boolean(request.query, "watch")
    except Invalid:
        watch = False  # the handler refuses it
    return request_kind(matched_pattern(request), watch=watch, log_query="query" in request.query)


def _in_pieces(response: web.StreamResponse) -> None:
    """Let a large body be written piece by piece: TLS transports take one piece of any size without complaint."""
    if isinstance(response, web.Response) and isinstance(response.body, bytes) and len(response.body) > _PIECE:
        response.body = io.BytesIO(response.body)


async def _as_long_as_it_lasts(request: web.Request, handler: Handler) -> web.StreamResponse:
    # A client whose machine has died says nothing, and would keep its place for hours.
    if request.transport is not None:
        keep_alive(request.transport)
    return await handler(request)


class _Places:
    """Places for requests of one kind."""

    def __init__(self, kind: Kind, total: int, per_user: int) -> None:
        self._kind = kind
        self._total = total
        self._per_user = per_user
        self._users: Counter[str] = Counter()

    def full(self, user: str) -> str | None:
        """Why the user gets no place now; None if there is one."""
        if self._users.total() >= self._total:
            return f"too many {self._kind} at once (the server answers {self._total}); try again later"
        if self._users[user] >= self._per_user:
            return f"too many {self._kind} of {user} at once (the limit is {self._per_user})"
        return None

    @contextmanager
    def taken(self, user: str) -> Iterator[None]:
        """The user has one within the block."""
        self._users[user] += 1
        try:
            yield
        finally:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]
