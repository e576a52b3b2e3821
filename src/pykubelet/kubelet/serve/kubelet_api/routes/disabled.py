"""Handlers of endpoints that the configuration disables."""

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
    """Return routes that replace everything that ``enableDebuggingHandlers`` disables."""
    handler = disabled_handler("Debug endpoints are disabled.")
    return [web.route("*", f"{path}{{rest:.*}}", handler) for path in _OFF]


def disabled_handler(text: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that answers 405 with a text."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=405, text=f"{text}\n")

    return handler
