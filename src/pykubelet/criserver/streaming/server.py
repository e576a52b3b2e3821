"""The HTTP server behind the URLs."""

import asyncio
import logging

from aiohttp import web

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.base.units import MIB
from pykubelet.criserver.streaming.attach import attach
from pykubelet.criserver.streaming.execute import execute
from pykubelet.criserver.streaming.forward_websocket import forward
from pykubelet.criserver.streaming.tokens import Tokens
from pykubelet.criserver.streaming.types import AttachTo, Execution, Executor, Forward, Target
from pykubelet.criserver.streaming.websocket import FORWARD_PROTOCOLS, PROTOCOLS, WebSocketClient

_log = logging.getLogger(__name__)
_ADDRESS = "127.0.0.1"


class StreamingServer:
    """Listens on a port that the kernel chooses, on loopback only."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._tokens: Tokens[Target] = Tokens(clock)
        self._base = ""

    def url(self, target: Target) -> str:
        """A URL for the request: it works once, within a minute. Transient when too many wait."""
        kind = {Execution: "exec", AttachTo: "attach", Forward: "portforward"}[type(target)]
        return f"{self._base}/{kind}/{self._tokens.issue(target)}"

    async def run(self, ready: asyncio.Event) -> None:
        """Serve until cancelled; ``ready`` is set when URLs can be given."""
        application = web.Application()
        for kind in ("exec", "attach", "portforward"):
            application.router.add_route("GET", f"/{kind}/{{token}}", self._handle)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, _ADDRESS, 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self._base = f"http://{host}:{port}"
            ready.set()
            await asyncio.get_running_loop().create_future()
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            target = self._tokens.redeem(request.match_info["token"])
        except NotFound as error:
            raise web.HTTPNotFound(text=str(error)) from error
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise web.HTTPBadRequest(text="only WebSocket is served here")
        protocols = FORWARD_PROTOCOLS if isinstance(target, Forward) else PROTOCOLS
        socket = web.WebSocketResponse(protocols=protocols, max_msg_size=4 * MIB, autoclose=True)
        await socket.prepare(request)
        try:
            match target:
                case Execution():
                    await execute(target, self._executor, WebSocketClient(socket))
                case AttachTo():
                    await attach(target, WebSocketClient(socket))
                case Forward():
                    await forward(target, _ports(request), socket)
        except ConnectionError:
            _log.debug("a streaming client has gone")
        return socket


def _ports(request: web.Request) -> list[int]:
    values = ",".join(request.query.getall("port", []) + request.query.getall("ports", [])).split(",")
    return [int(value) for value in values if value.isdecimal() and 0 < int(value) < 65536]
