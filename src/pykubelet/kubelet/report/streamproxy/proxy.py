"""Joins a client's request to the runtime."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from aiohttp import web

from pykubelet.base.hangup import keep_alive, until_stuck
from pykubelet.base.spdy import Link, StreamLink, WebSocketLink
from pykubelet.base.units import Seconds
from pykubelet.base.upgrade import SWITCHED, Answer, taken_over
from pykubelet.kubelet.report.streamproxy.backend import Backend, Headers, check_upgrade, connected, passed_on, refusal
from pykubelet.kubelet.report.streamproxy.translate import translate
from pykubelet.kubelet.report.streamproxy.types import FORWARD, TUNNEL, V5, StreamSet

GetUrl: TypeAlias = Callable[[], Awaitable[str]]
"""Asks the runtime for a new one-time URL."""

_AFTER_EOF: Final[Seconds] = 30.0
"""A client that sends no more may wait so long for the rest."""
_PROTOCOLS: Final = "Sec-WebSocket-Protocol"


class StreamProxy:
    """One for each runtime: remembers what that speaks."""

    def __init__(self) -> None:
        self._speaks_v5 = True

    async def command(self, request: web.Request, get_url: GetUrl, streams: StreamSet) -> web.StreamResponse:
        """Serve an exec or attach to its end.

        Invalid: the request is no upgrade. Permanent: the URL is of a kind that is not supported. Transient: the
        streaming server does not answer. All before the client was told anything; so are the errors of ``get_url``.
        """
        check_upgrade(request)
        if V5 not in _offered(request):
            return await _pass(request, await get_url(), passed_on(request), lambda _: True) or web.Response()
        if self._speaks_v5:
            # Only v5 is offered, because runtimes that do not know it would choose an older one.
            others = [pair for pair in passed_on(request) if pair[0].lower() != _PROTOCOLS.lower()]
            headers = [*others, (_PROTOCOLS, V5)]
            done = await _pass(request, await get_url(), headers, _chose_v5)
            if done is not None:
                return done
            self._speaks_v5 = False
        return await translate(request, await get_url(), streams)

    async def port_forward(self, request: web.Request, get_url: GetUrl) -> web.StreamResponse:
        """Serve a port-forward to its end. Errors as of ``command``."""
        check_upgrade(request)
        if TUNNEL in _offered(request):
            return await _untunnel(request, await get_url())
        return await _pass(request, await get_url(), passed_on(request), lambda _: True) or web.Response()


async def _pass(
    request: web.Request, url: str, headers: Headers, suits: Callable[[Answer], bool]
) -> web.StreamResponse | None:
    """Pass everything on as it is. None, and nothing sent to the client, when the answer does not suit."""
    async with connected(url) as backend:
        answer = await backend.handshake(request.method, headers)
        if not suits(answer):
            return None
        if answer.status != SWITCHED:
            return refusal(answer)
        async with taken_over(request) as (reader, writer):
            writer.write(answer.head)
            await _join(StreamLink(reader, writer), StreamLink(backend.reader, backend.writer))
    # The connection is gone; aiohttp knows and does not try to send this.
    return web.Response()


async def _untunnel(request: web.Request, url: str) -> web.StreamResponse:
    """SPDY inside a WebSocket on the client's side, bare on the runtime's."""
    async with connected(url) as backend:
        answer = await backend.spdy(FORWARD)
        if answer.status != SWITCHED:
            return refusal(answer)
        socket = web.WebSocketResponse(protocols=(TUNNEL,), compress=False)
        await socket.prepare(request)
        keep_alive(socket)
        await _join(WebSocketLink(socket), _link(backend))
        await socket.close()
        return socket


def _link(backend: Backend) -> Link:
    return StreamLink(backend.reader, backend.writer)


async def _join(client: Link, runtime: Link) -> None:
    """Copy both ways until the runtime ends, or the client has gone."""
    to_runtime, to_client = _Copy(client, runtime), _Copy(runtime, client)
    upstream = asyncio.create_task(to_runtime.run(), name="stream-to-runtime")
    downstream = asyncio.create_task(to_client.run(), name="stream-to-client")
    # While the runtime takes nothing, nothing is read from the client, and its end would not be seen.
    gone = asyncio.create_task(until_stuck(lambda: to_runtime.pieces, client.hung_up), name="stream-client-gone")
    try:
        await asyncio.wait({upstream, downstream, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not downstream.done() and not gone.done():
            await runtime.end()
            await asyncio.wait({downstream}, timeout=_AFTER_EOF)
    finally:
        for task in (upstream, downstream, gone):
            task.cancel()
        await asyncio.gather(upstream, downstream, gone, return_exceptions=True)


class _Copy:
    """One direction."""

    def __init__(self, source: Link, sink: Link) -> None:
        self._source = source
        self._sink = sink
        self.pieces = 0
        """What has been read."""

    async def run(self) -> None:
        """Until one end has gone."""
        with suppress(OSError):
            while data := await self._source.read():
                self.pieces += 1
                await self._sink.write(data)


def _offered(request: web.Request) -> set[str]:
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return set()
    return {word.strip() for word in request.headers.get(_PROTOCOLS, "").split(",")}


def _chose_v5(answer: Answer) -> bool:
    """Whether the runtime took v5, or refuses for another reason than that."""
    if answer.status == SWITCHED:
        return answer.headers.get(_PROTOCOLS.lower()) == V5
    return answer.status not in (400, 403)
