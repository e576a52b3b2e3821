"""Joins a client's exec, attach or port-forward request to the runtime's streaming server."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from aiohttp import web

from pykubelet.base.http.hangup import keep_alive, wait_until_stuck
from pykubelet.base.http.upgrade import SWITCHED, UpgradeResponse, taken_over
from pykubelet.base.http.websocket_messages import close
from pykubelet.base.spdy import Link, StreamLink, WebSocketLink
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.streams.stream_backend import (
    Backend,
    Headers,
    check_upgrade,
    connected,
    passed_on,
    refusal,
)
from pykubelet.kubelet.serve.streams.stream_types import FORWARD, TUNNEL, V5, StreamSet
from pykubelet.kubelet.serve.streams.translate import translate

GetUrl: TypeAlias = Callable[[], Awaitable[str]]
"""Requests a new one-time URL from the runtime."""

_AFTER_EOF: Final[Seconds] = 30.0
"""Seconds that a client which has closed its sending side may wait for the rest of the output."""
_LOOK: Final[Seconds] = 0.5
"""Seconds after which is looked again whether such a client has vanished."""
_PROTOCOLS: Final = "Sec-WebSocket-Protocol"


class StreamProxy:
    """The proxy to one runtime; remembers whether the runtime speaks ``v5.channel.k8s.io``."""

    def __init__(self) -> None:
        self._speaks_v5 = True

    async def command(self, request: web.Request, get_url: GetUrl, streams: StreamSet) -> web.StreamResponse:
        """Serve an exec or attach to its end.

        Invalid: the request is not an upgrade. Permanent: unsupported URL. Transient: the streaming server is not
        responding. These, and the errors of ``get_url``, are raised before anything is sent to the client.
        """
        check_upgrade(request)
        if V5 not in _offered(request):
            return await _pass(request, await get_url(), passed_on(request), lambda _: True) or web.Response()
        if self._speaks_v5:
            # Only v5 is offered, because a runtime that does not know v5 would choose an older protocol.
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
    request: web.Request, url: str, headers: Headers, suits: Callable[[UpgradeResponse], bool]
) -> web.StreamResponse | None:
    """Pass the connection on unchanged.

    Returns None, with nothing sent to the client, when ``suits`` rejects the runtime's answer.
    """
    async with connected(url) as backend:
        answer = await backend.handshake(request.method, headers)
        if not suits(answer):
            return None
        if answer.status != SWITCHED:
            return refusal(answer)
        async with taken_over(request) as (reader, writer):
            writer.write(answer.head)
            await _join(StreamLink(reader, writer), StreamLink(backend.reader, backend.writer))
    # The connection is closed; aiohttp knows that and does not send this response.
    return web.Response()


async def _untunnel(request: web.Request, url: str) -> web.StreamResponse:
    """Unwrap SPDY from the client's WebSocket and send it plain to the runtime."""
    async with connected(url) as backend:
        answer = await backend.spdy(FORWARD)
        if answer.status != SWITCHED:
            return refusal(answer)
        socket = web.WebSocketResponse(protocols=(TUNNEL,), compress=False, autoping=False, timeout=0.0)
        await socket.prepare(request)
        keep_alive(socket)
        await _join(WebSocketLink(socket), _link(backend))
        await close(socket)
        return socket


def _link(backend: Backend) -> Link:
    return StreamLink(backend.reader, backend.writer)


async def _join(client: Link, runtime: Link) -> None:
    """Copy in both directions until the runtime ends or the client disconnects."""
    to_runtime, to_client = _Copy(client, runtime), _Copy(runtime, client)
    upstream = asyncio.create_task(to_runtime.run(), name="stream-to-runtime")
    downstream = asyncio.create_task(to_client.run(), name="stream-to-client")
    # While the runtime does not read, nothing is read from the client either, and its disconnect would go unnoticed.
    gone = asyncio.create_task(wait_until_stuck(lambda: to_runtime.pieces, client.hung_up), name="stream-client-gone")
    try:
        await asyncio.wait({upstream, downstream, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not downstream.done() and not gone.done():
            await runtime.end()
            await _rest(downstream, client)
    finally:
        for task in (upstream, downstream, gone):
            task.cancel()
        await asyncio.gather(upstream, downstream, gone, return_exceptions=True)


async def _rest(output: asyncio.Task[None], client: Link) -> None:
    """Wait for the rest of the output while the client can take it."""
    for _ in range(int(_AFTER_EOF / _LOOK)):
        if output.done() or client.vanished():
            break
        await asyncio.wait({output}, timeout=_LOOK)


class _Copy:
    """Copies one direction."""

    def __init__(self, source: Link, sink: Link) -> None:
        self._source = source
        self._sink = sink
        self.pieces = 0
        """Number of pieces read."""

    async def run(self) -> None:
        """Copy until one end closes."""
        with suppress(OSError):
            while data := await self._source.read():
                self.pieces += 1
                await self._sink.write(data)


def _offered(request: web.Request) -> set[str]:
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return set()
    return {word.strip() for word in request.headers.get(_PROTOCOLS, "").split(",")}


def _chose_v5(answer: UpgradeResponse) -> bool:
    """Return whether the runtime chose v5, or refused for a reason other than the protocol."""
    if answer.status == SWITCHED:
        return answer.headers.get(_PROTOCOLS.lower()) == V5
    return answer.status not in (400, 403)
