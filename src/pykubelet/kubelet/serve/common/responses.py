"""Responses of the servers: JSON, Status objects, and the middleware that turns errors into Status."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import Struct

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.serve.common.api_status import error_status, failure
from pykubelet.kubelet.serve.common.plan.request_target import check_target
from pykubelet.kubelet.serve.common.server_interfaces import HttpMeter
from pykubelet.models import codec
from pykubelet.models.meta_v1 import Status, StatusDetails

_log = logging.getLogger(__name__)

_LONG_RUNNING: Final = ("exec", "attach", "log")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def json_response(value: object, status: int = 200) -> web.Response:
    """Return a JSON response of an object, or of plain values that contain objects."""
    return web.Response(body=codec.encode(value), status=status, content_type="application/json")


def status_response(status: Status) -> web.Response:
    """Return a Status as the response, with its HTTP code."""
    response = json_response(status, status.code or 500)
    if status.details is not None and status.details.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(status.details.retry_after_seconds)
    return response


def matched_pattern(request: web.Request) -> str | None:
    """Return the pattern of the matched route; None: no route matches, an error answers the request."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else None


def route_pattern(request: web.Request) -> str:
    """Return the route's pattern as metric label; never the path, of which clients could make up any number."""
    return matched_pattern(request) or "other"


class ResponseStyle(Struct, frozen=True):
    """Format of a server's errors, and its path label for metrics."""

    show: Callable[[Status], web.Response] = status_response
    path: Callable[[web.Request], str] = route_pattern


class RequestTracker:
    """The active requests of a server: measured, and cancelled together at the end.

    ``middleware`` is around the access check and all handlers. It rejects paths that are not in normal form and turns
    every error into a Status.
    """

    def __init__(self, *, server_type: str, meter: HttpMeter, style: ResponseStyle) -> None:
        self._server_type = server_type
        self._meter = meter
        self._style = style
        self._active: set[asyncio.Task[object]] = set()
        self._closed = False

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._serve(request, handler)

        self.middleware: Middleware = middleware

    def __len__(self) -> int:
        return len(self._active)

    async def end(self) -> None:
        """Reject further requests and cancel active ones (watches and followed logs never end by themselves)."""
        self._closed = True
        for task in self._active:
            task.cancel()
        if self._active:
            await asyncio.wait(self._active)

    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._closed:
            return self._style.show(failure(503, "the agent is stopping", details=StatusDetails(retry_after_seconds=1)))
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        try:
            with self._measured(request):
                return await _answer(request, handler, self._style.show)
        finally:
            self._active.discard(task)

    def _measured(self, request: web.Request) -> AbstractContextManager[None]:
        path = self._style.path(request)
        method = request.method if request.method in _METHODS else "other"
        long_running = path.endswith(_LONG_RUNNING) or request.query.get("watch") in ("1", "true")
        return self._meter.http_request(method, path, self._server_type, long_running=long_running)


async def _answer(request: web.Request, handler: Handler, show: Callable[[Status], web.Response]) -> web.StreamResponse:
    try:
        check_target(request.raw_path)
        return await handler(request)
    except PykubeletError as error:
        return show(error_status(error))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        text = f"{request.method} {request.path}: {error.reason}"
        return show(failure(error.status, text))
    except ConnectionResetError:
        raise
    except Exception as error:
        _log.exception("request failed", extra={"method": request.method, "path": request.path})
        return show(failure(500, f"{request.method} {request.path} failed: {type(error).__name__}"))
