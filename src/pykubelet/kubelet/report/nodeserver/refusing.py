"""Endpoints that the configuration has switched off."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web

_OFF: Final = (
    "/run/",
    "/exec/",
    "/attach/",
    "/portForward/",
    "/containerLogs/",
    "/runningpods/",
    "/debug/pprof/",
    "/logs/",
)


def disabled_routes() -> Sequence[web.RouteDef]:
    """Instead of all that ``enableDebuggingHandlers`` switches off."""
    handler = refuse("Debug endpoints are disabled.")
    return [web.route("*", f"{path}{{rest:.*}}", handler) for path in _OFF]


def refuse(text: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that answers 405."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=405, text=f"{text}\n")

    return handler
