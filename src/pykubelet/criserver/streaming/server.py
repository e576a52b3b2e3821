"""The HTTP server for streaming URLs."""

import asyncio
import logging
import socket
from typing import Final, assert_never

from aiohttp import web

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.http.port_number import parse_port
from pykubelet.base.http.server_log import server_logger
from pykubelet.base.http.unauthenticated import UnauthenticatedConnections
from pykubelet.base.http.upgrade import taken_over
from pykubelet.base.spdy import Bounds, StreamLink, WebSocketLink
from pykubelet.base.units import KIB, Bytes
from pykubelet.criserver.streaming import forward_spdy, forward_websocket, spdy_client, websocket
from pykubelet.criserver.streaming.attach import attach
from pykubelet.criserver.streaming.commands.detached import DetachedExecs
from pykubelet.criserver.streaming.commands.execute import Executor, execute
from pykubelet.criserver.streaming.session_limits import SessionLimits, bounds, longest_message
from pykubelet.criserver.streaming.streaming_types import AttachTarget, Client, Execution, Forward, Target
from pykubelet.criserver.streaming.tokens import Tokens

_log = logging.getLogger(__name__)
_ADDRESS: Final = "127.0.0.1"
_MAX_DETACHED: Final = 64
"""Limit of detached execs; for one more the oldest is killed."""
_ACCEPTED: Final = 16
"""Connections that are accepted before requests on others are read. So no connection is closed, as the oldest of too
many, before its request was read."""
_BACKLOG: Final = 512
_HEADER: Final = 8 * KIB - 2
"""Limit of a header and of the request line, in bytes."""
_HEADERS: Final = 64
_KINDS: Final = {Execution: "exec", AttachTarget: "attach", Forward: "portforward"}


class StreamingServer:
    """Serves exec, attach and port-forward on loopback, on a port that the kernel chooses."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._tokens: Tokens[Target] = Tokens(clock)
        self._base = ""
        self._detached = DetachedExecs(_MAX_DETACHED)
        self._unauthenticated: UnauthenticatedConnections | None = None
        self._serving: set[asyncio.Task[object]] = set()
        self._sessions = SessionLimits()

    def url(self, target: Target) -> str:
        """Register a request and return its URL, which works once, within a minute. Transient: too many are waiting."""
        return f"{self._base}/{_KINDS[type(target)]}/{self._tokens.issue(target, _size(target))}"

    async def run(self, ready: asyncio.Event) -> None:
        """Serve until cancelled; ``ready`` is set when URLs can be given."""
        application = web.Application()
        for kind in _KINDS.values():
            for method in ("GET", "POST"):
                application.router.add_route(method, f"/{kind}/{{token}}", self._handle)
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=server_logger(__name__),
            handle_signals=False,
            shutdown_timeout=1.0,
            lingering_time=0.0,
            max_line_size=_HEADER,
            max_field_size=_HEADER,
            max_headers=_HEADERS,
        )
        await runner.setup()
        assert runner.server is not None
        self._unauthenticated = unauthenticated = UnauthenticatedConnections(runner.server)
        loop = asyncio.get_running_loop()
        listen_socket = socket.create_server((_ADDRESS, 0))
        listener = await loop.create_server(unauthenticated.handler, sock=listen_socket, backlog=_ACCEPTED)
        # asyncio accepts ``backlog`` connections at a time; the kernel's own backlog may be longer.
        listen_socket.listen(_BACKLOG)
        try:
            self._base = "http://{}:{}".format(*listen_socket.getsockname())
            ready.set()
            await loop.create_future()
        finally:
            listener.close()
            unauthenticated.close()
            await shielded(lambda: self._end(runner))

    async def _end(self, runner: web.AppRunner) -> None:
        # aiohttp would wait for the handlers for a while, and then cancel them without awaiting their end.
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await runner.cleanup()
        await self._detached.end()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            target = self._tokens.redeem(request.match_info["token"])
        except NotFound as error:
            raise web.HTTPNotFound(text=str(error)) from error
        if not request.path.startswith(f"/{_KINDS[type(target)]}/"):
            raise web.HTTPNotFound(text="this URL is of another kind")
        assert self._unauthenticated is not None, "requests only come while run() is active"
        self._unauthenticated.known(request.protocol)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with self._sessions.reserve() as share:
                return await self._serve(request, target, share)
        except Transient as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        except ConnectionError:
            _log.debug("streaming client disconnected")
            return web.Response()
        finally:
            self._serving.discard(task)

    async def _serve(self, request: web.Request, target: Target, share: Bytes) -> web.StreamResponse:
        if spdy_client.is_spdy(request):
            return await self._over_spdy(request, target, bounds(share))
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._over_websocket(request, target, share)
        raise web.HTTPBadRequest(text="unable to upgrade: only SPDY/3.1 and WebSocket are served here")

    async def _over_spdy(self, request: web.Request, target: Target, limits: Bounds) -> web.StreamResponse:
        if isinstance(target, Forward):
            protocol = spdy_client.negotiate(request, forward_spdy.PROTOCOLS)
            async with taken_over(request) as (reader, writer):
                writer.write(spdy_client.accepting(protocol))
                await forward_spdy.forward(target, StreamLink(reader, writer), limits)
        else:
            await spdy_client.serve(request, target.streams, lambda client: self._run(target, client), limits)
        # The connection is closed; aiohttp knows that and does not send this response.
        return web.Response()

    async def _over_websocket(self, request: web.Request, target: Target, share: Bytes) -> web.StreamResponse:
        if not isinstance(target, Forward):
            connected = await websocket.accept(request, websocket.PROTOCOLS, longest_message(share))
            client = websocket.WebSocketClient(connected)
            await client.greet(target.streams)
            await self._run(target, client)
            return connected
        connected = await websocket.accept(request, websocket.FORWARD_PROTOCOLS, longest_message(share))
        if connected.ws_protocol == websocket.TUNNEL:
            await forward_spdy.forward(target, WebSocketLink(connected), bounds(share))
        else:
            await forward_websocket.forward(target, _ports(request) or target.ports, connected)
        return connected

    async def _run(self, target: Execution | AttachTarget, client: Client) -> None:
        match target:
            case Execution():
                await execute(target, self._executor, client, self._detached)
            case AttachTarget():
                await attach(target, client)
            case _:
                assert_never(target)


def _size(target: Target) -> Bytes:
    return Bytes(sum(map(len, target.command)) if isinstance(target, Execution) else 0)


def _ports(request: web.Request) -> list[int]:
    values = ",".join(request.query.getall("port", []) + request.query.getall("ports", [])).split(",")
    return [port for value in values if (port := parse_port(value)) is not None]
