"""Requests to the API server: typed, over pooled connections, retried where that is safe. One client per agent.

One aiohttp session keeps connections alive. A request is retried when the API server says so (429, 503 with
Retry-After) and, if it is idempotent, when its connection broke. Errors are those of ``base.errors``.
"""

import asyncio
import logging
import os
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar

import aiohttp
from msgspec import Struct
from yarl import URL

from pykubelet.apiclient.answers import NoAnswer, TooLong, decoded, off_loop, read_body
from pykubelet.apiclient.credentials import Credentials, RotatedCertificate
from pykubelet.apiclient.errors import Unauthorized, error_of_response
from pykubelet.apiclient.kubeconfig import ClusterConfig
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.resources import Target
from pykubelet.apiclient.select import ObjectSelector
from pykubelet.apiclient.watch import Lines, Listing, WatchEvent, read_event, read_object
from pykubelet.base.backoff import jittered
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.concurrency.tasks import yielding_to_loop
from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.http.head_limits import BoundedConnector
from pykubelet.base.http.proxy import proxy_for, refusal
from pykubelet.base.http.tls_clients import plain_context
from pykubelet.base.units import Seconds
from pykubelet.models.codec import encode
from pykubelet.models.meta_v1 import DeleteOptions, Preconditions
from pykubelet.models.scalars import KubeStruct

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeStruct)
Observe: TypeAlias = Callable[[str, str, str, Seconds], None]
"""Called for every request: method, host, status code (``<error>`` if unanswered), seconds until the answer began."""

_PAGE: Final = 500
_MAX_PAGES: Final = 1000
_FEWER: Final = 8
"""Divisor of the objects of a page if that is too long: one has 1.5 MiB in etcd, six times as much in JSON."""
_ATTEMPTS: Final = 4
_FIRST_DELAY: Final = 0.25
_MAX_RETRY_AFTER: Final = 30.0
_WATCH_SLACK: Final = 30.0
_WATCH_SILENCE: Final = 150.0
"""Seconds without data after which a watch is ended and started again, which detects a dead server.

Bookmarks arrive about once a minute, but not for collections that have never changed.
"""
_KEEPALIVE_IDLE: Final = 30
_KEEPALIVE_INTERVAL: Final = 10
_USER_TIMEOUT_MS: Final = 60_000
_SAFE: Final = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Idempotent methods; PATCH is one because the agent's patches carry a uid."""


class PatchKind(StrEnum):
    """Content types of patches."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class Timeouts(Struct, frozen=True):
    """Seconds for a whole request, and for connecting."""

    request: Seconds = 30.0
    connect: Seconds = 10.0


class _Call(Struct, frozen=True):
    """One HTTP request."""

    method: str
    path: str
    what: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = "application/json"

    @property
    def target(self) -> str:
        query = "&".join(f"{k}={v}" for k, v in self.params)
        return f"{self.path}?{query}" if query else self.path


_ALL: Final = ObjectSelector()


class ApiClient:
    """The client of one API server. Has to be closed; belongs to one event loop.

    A proxy is that of the kubeconfig, else of the environment, which is read once; Invalid: it is of another kind.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        *,
        limit: RateLimit | None = None,
        timeouts: Timeouts | None = None,
        agent: str = "pykubelet",
        observe: Observe | None = None,
        rotated: RotatedCertificate | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        """``rand`` returns numbers from 0 to 1, for the jitter of retries."""
        self._config = config
        self._clock = clock
        self._limit = limit or RateLimit(0, 1, clock=clock)
        self._timeouts = timeouts or Timeouts()
        self._agent = agent
        self._observe = observe
        self._rand = rand
        self._host = URL(config.server).authority
        self._proxy = config.proxy_url or proxy_for(config.server, os.environ)
        self._credentials = Credentials(config, clock, rotated=rotated)
        self._session: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._config.server

    async def get(self, target: Target[T]) -> T:
        """Return one object. Raises NotFound."""
        return await self._object(_Call("GET", target.path, f"get {target.label}"), target)

    async def list(self, target: Target[T], select: ObjectSelector = _ALL) -> Listing[T]:
        """Return the objects of a collection, read page by page, and the version to watch from.

        The largest objects are left out, and named, if all of them would take too much memory. Raises Expired when a
        page's token is too old, Transient when an answer is no such list, or it has no end.
        """
        pages: Pages[T] = Pages(target.kind)
        token, limit = "", _PAGE
        for _ in range(_MAX_PAGES):
            params = (*_selection(select), ("limit", str(limit)), *((("continue", token),) if token else ()))
            try:
                body = await self._send(_Call("GET", target.path, f"list {target.label}", params))
                token = await off_loop(body, pages.read)
            except TooLong:
                if limit == 1:
                    raise
                limit = max(limit // _FEWER, 1)
                continue
            limit = min(2 * limit, _PAGE)
            if not token:
                return pages.listing()
        raise Transient(f"list {target.label}: the answers have no end")

    async def create(self, target: Target[T], value: KubeStruct) -> T:
        """Create an object, or POST to a subresource. Raises AlreadyExists."""
        return await self._object(_Call("POST", target.path, f"create {target.label}", body=encode(value)), target)

    async def update(self, target: Target[T], value: KubeStruct) -> T:
        """Replace an object. Raises Conflict when its resource version is not the newest."""
        return await self._object(_Call("PUT", target.path, f"update {target.label}", body=encode(value)), target)

    async def patch(self, target: Target[T], patch: object, kind: PatchKind = PatchKind.STRATEGIC) -> T:
        """Change an object; ``patch`` is plain values.

        A uid in its metadata is a precondition: Conflict if the object has another one.
        """
        call = _Call("PATCH", target.path, f"patch {target.label}", body=encode(patch), content_type=kind)
        return await self._object(call, target)

    async def delete(self, target: Target[T], uid: str = "", grace_seconds: int | None = None) -> bool:
        """Delete an object, only the one with the uid if given; return False if it does not exist."""
        options = DeleteOptions(
            api_version="v1",
            kind="DeleteOptions",
            grace_period_seconds=grace_seconds,
            preconditions=Preconditions(uid=uid) if uid else None,
        )
        try:
            await self._send(_Call("DELETE", target.path, f"delete {target.label}", body=encode(options)))
        except NotFound:
            return False
        return True

    async def ready(self) -> bool:
        """Return whether the API server reports that it is ready."""
        try:
            await self._send(_Call("GET", "/readyz", "readyz"))
        except Transient:
            return False
        return True

    async def watch(
        self, target: Target[T], select: ObjectSelector, version: str, duration: Seconds
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield changes after ``version`` until the stream ends or is silent, for ``duration`` seconds at most.

        Raises Expired when the version is too old, Transient when the stream breaks.
        """
        params = (
            *_selection(select),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(int(duration))),
        )
        what = f"watch {target.label}"
        timeout = aiohttp.ClientTimeout(
            total=duration + _WATCH_SLACK, connect=self._timeouts.connect, sock_read=_WATCH_SILENCE
        )
        lines, read = Lines(), partial(read_event, target=target.kind)
        async with self._request(_Call("GET", target.path, what, params), timeout) as response:
            if response.status != 200:
                raise await self._failure(response, what)
            try:
                async for chunk in response.content.iter_any():
                    async for line in yielding_to_loop(lines.feed(chunk)):
                        yield await decoded(line, read)
                    await asyncio.sleep(0)  # an unpacked answer may have only empty lines, without end
            except aiohttp.SocketTimeoutError:
                return
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Transient(f"{what}: the stream broke: {error!r}") from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- one request

    async def _object(self, call: _Call, target: Target[T]) -> T:
        return await decoded(await self._send(call), partial(read_object, target=target.kind, what=call.what))

    async def _send(self, call: _Call) -> bytes:
        renewed = False
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._limit.take()
                return await self._try(call)
            except Unauthorized:
                if renewed:
                    raise
                renewed = True
                self._credentials.renew()
            except Transient as error:
                delay = self._delay(call, error, attempt)
                if delay is None:
                    raise
                _log.debug(
                    "request failed; retrying", extra={"request": call.what, "error": str(error), "delay_s": delay}
                )
                await self._clock.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    def _delay(self, call: _Call, error: Transient, attempt: int) -> Seconds | None:
        """Return the seconds until the next attempt; None: give up."""
        if attempt >= _ATTEMPTS or (call.method not in _SAFE and error.retry_after is None):
            return None
        if isinstance(error, NoAnswer) and not error.broken:
            return None  # server unreachable: callers have their own retry limits
        wait = jittered(_FIRST_DELAY * 2 ** (attempt - 1), 1.0, self._rand)
        if error.retry_after is not None:
            if error.retry_after > _MAX_RETRY_AFTER:
                return None
            wait = max(wait, jittered(error.retry_after, 0.1, self._rand))
        return wait

    async def _try(self, call: _Call) -> bytes:
        timeout = aiohttp.ClientTimeout(total=self._timeouts.request, connect=self._timeouts.connect)
        async with self._request(call, timeout) as response:
            if response.status not in (200, 201, 202):
                raise await self._failure(response, call.what)
            try:
                return await read_body(response, call.what)
            except TimeoutError as error:  # that of the whole request: the same one would take as long again
                raise TooLong(f"{call.what}: the answer takes too long to arrive", broken=False) from error
            except (aiohttp.ClientError, OSError) as error:
                raise NoAnswer(f"{call.what}: the answer is incomplete: {error!r}", broken=True) from error

    @asynccontextmanager
    async def _request(self, call: _Call, timeout: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        begun, code = self._clock.monotonic(), "<error>"
        try:
            response = await self._answer(call, timeout)
            code = str(response.status)
        finally:
            if self._observe is not None:
                self._observe(call.method, self._host, code, self._clock.monotonic() - begun)
        async with response:
            yield response

    async def _answer(self, call: _Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        context = await self._credentials.tls()
        headers: Mapping[str, str] = {
            "Accept": "application/json",
            "User-Agent": self._agent,
            **await self._credentials.headers(),
            **({"Content-Type": call.content_type} if call.body else {}),
        }
        if self._session is None:
            self._session = _session()
        try:
            return await self._session.request(
                call.method,
                URL(f"{self._config.server}{call.path}").update_query(list(call.params)),
                data=call.body or None,
                headers=headers,
                timeout=timeout,
                ssl=context if context is not None else plain_context(self._proxy),
                server_hostname=(self._config.tls_server_name or None) if context is not None else None,
                proxy=self._proxy or None,
                allow_redirects=False,
            )
        except aiohttp.ServerDisconnectedError as error:
            raise NoAnswer(f"{call.what}: the API server closed the connection", broken=True) from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientSSLError) as error:
            raise NoAnswer(f"{call.what}: cannot connect to {self._config.server}: {error}", broken=False) from error
        except (aiohttp.ClientOSError, ConnectionError) as error:
            raise NoAnswer(f"{call.what}: the connection broke: {error!r}", broken=True) from error
        except TimeoutError as error:
            raise NoAnswer(f"{call.what}: {self._config.server} timed out", broken=False) from error
        except aiohttp.ClientHttpProxyError as error:
            raise Transient(f"{call.what}: {refusal(error.status, error.message)}") from None
        except aiohttp.InvalidURL:  # as above: its text may have the password of a proxy, which the log would show
            raise Invalid(f"{call.what}: the URL of the API server or of its proxy is invalid") from None
        except aiohttp.ClientError as error:
            raise Transient(f"{call.what}: {str(error) or type(error).__name__}") from error
        except (ValueError, OSError) as error:
            raise Invalid(f"{call.what}: the request cannot be made: {error}") from error

    async def _failure(self, response: aiohttp.ClientResponse, what: str) -> Exception:
        try:
            body = await read_body(response, what)
        except (aiohttp.ClientError, TimeoutError, OSError, Transient):
            body = b""
        return error_of_response(response.status, body, what, response.headers.get("Retry-After", ""))


def _selection(select: ObjectSelector) -> tuple[tuple[str, str], ...]:
    given = (("fieldSelector", select.fields), ("labelSelector", select.labels))
    return tuple((name, value) for name, value in given if value)


def _session() -> aiohttp.ClientSession:
    connector = BoundedConnector(limit=0, keepalive_timeout=90.0, socket_factory=_socket)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        json_serialize=str,
    )


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """Create a socket that detects a dead peer within a minute, although a watch may be silent for many."""
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    ):
        made.setsockopt(level, option, value)
    return made
