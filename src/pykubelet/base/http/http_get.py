"""HTTP GET requests of probes and lifecycle hooks: bounded, to one host only, without trust in the response.

The server is a container, so it may be hostile. Therefore the head of a response is bounded (``http_bounds``), 10 KiB
of the body are read, redirects are followed on the same host only (a pod must not make the node call other hosts, such
as a metadata service), proxies of the environment are not used, and compressed bodies stay compressed. Certificates
are not verified, as containers have none that the node could know. Redirects and certificates follow the Go kubelet
(``pkg/probe/http``).
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from pykubelet.base.errors import LACKING, Invalid, Transient
from pykubelet.base.units import KIB, Bytes, Seconds

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

Headers = tuple[tuple[str, str], ...]

MAX_BODY = Bytes(10 * KIB)
_MAX_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_FRAMING = {"content-length", "transfer-encoding", "trailer", "connection"}
"""Headers that describe the connection, which belongs to the client: Go's client too ignores them if users set them."""
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_PATH_SAFE = "%/?#[]@:!$&'()*+,;=~-._"
_ILLEGAL_IN_HEADER = set("\r\n\0")
_PLAIN_HTTP = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST"}
"""OpenSSL's error reasons for a response without TLS."""


class HttpGet(Struct, frozen=True):
    """A GET request. ``headers`` are the user's; `with_defaults` adds the usual ones."""

    url: str
    headers: Headers = ()


class HttpReply(Struct, frozen=True):
    """The response to a GET request."""

    status: int
    body: bytes
    """The first 10 KiB. Do not show it to users, except that of a redirect: it may come from a server to which the
    pod's owner has no access."""


class HttpGetFailed(Transient):
    """No response: the connection failed or broke off, or the server does not speak HTTP."""


class HttpGetTimeout(HttpGetFailed):
    """No complete response before the deadline."""


class PlainHttpAnswer(HttpGetFailed):
    """The server of an https URL does not speak TLS; hooks then try http."""


class HttpGetter:
    """Sends GET requests, each on its own connection. Belongs to one event loop; `close` it at the end.

    aiohttp is imported at the first request, so that nodes without probes and hooks save its memory.
    """

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    async def get(self, request: HttpGet, timeout: Seconds | None) -> HttpReply:
        """Send a request and return its response, all redirects and the body within `timeout` seconds (None: no limit).

        A redirect to another host is returned, not followed. Raises `HttpGetFailed`, `Invalid` if the request cannot
        be sent at all, or another `Transient` if it cannot be sent now for lack of descriptors or memory.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._follow(request)
        except TimeoutError as error:
            raise HttpGetTimeout(f'Get "{request.url}": no answer within {timeout:g} s') from error

    async def close(self) -> None:
        """Close the session if it is open."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _follow(self, request: HttpGet) -> HttpReply:
        url, headers = request.url, _checked(request.headers)
        for _ in range(_MAX_REDIRECTS):
            reply, location = await self._get_once(url, headers)
            target = _redirect_target(url, location) if reply.status in _REDIRECTS else None
            if target is None:
                return reply
            if urlsplit(location).netloc:
                # The Host header belongs to the first URL; an absolute target names its own host.
                headers = tuple(h for h in headers if h[0].lower() != "host")
            url = target
        raise HttpGetFailed(f'Get "{request.url}": stopped after {_MAX_REDIRECTS} redirects')

    async def _get_once(self, url: str, headers: Headers) -> tuple[HttpReply, str]:
        import aiohttp
        from yarl import URL

        try:
            async with self._open().get(
                URL(url, encoded=True), headers=headers, allow_redirects=False, skip_auto_headers=_AUTOMATIC
            ) as response:
                body = await _read(response)
                return HttpReply(response.status, body), response.headers.get("Location", "")
        except (aiohttp.InvalidURL, ValueError) as error:
            raise Invalid(f"the URL {url!r} cannot be used: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, OSError) and error.errno in LACKING:
                raise Transient(f'Get "{url}": not sent: {os.strerror(error.errno or 0)}') from error
            raise _failure(url, error) from error

    def _open(self) -> "ClientSession":
        if self._session is None:
            import aiohttp

            from pykubelet.base.http.head_limits import BoundedConnector

            connector = BoundedConnector(
                ssl=False, force_close=True, limit=0, use_dns_cache=False, resolver=aiohttp.ThreadedResolver()
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            )
        return self._session


def http_url(scheme: str, host: str, port: int, path: str) -> str:
    """The URL of an ``httpGet`` handler. The path may have a query; characters not allowed in URLs are escaped."""
    name = f"[{host}]" if is_ipv6(host) else host
    path = quote(path, safe=_PATH_SAFE)
    return f"{(scheme or 'http').lower()}://{name}:{port}{path if path.startswith('/') else '/' + path}"


def with_defaults(headers: Iterable[tuple[str, str]], user_agent: str) -> Headers:
    """The user's headers, with ``User-Agent`` and ``Accept: */*`` added where the user gave none.

    An empty value of one of these two headers means that it is not sent.
    """
    given = tuple(headers)
    names = {name.lower() for name, _ in given}
    defaults = (("User-Agent", user_agent), ("Accept", "*/*"))
    kept = tuple((n, v) for n, v in given if v or n.lower() not in ("user-agent", "accept"))
    return kept + tuple((name, value) for name, value in defaults if name.lower() not in names)


def is_ipv6(host: str) -> bool:
    """Whether the host is an IPv6 address, which needs brackets before a port."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version == 6
    except ValueError:
        return False


async def _read(response: "ClientResponse") -> bytes:
    body = bytearray()
    while len(body) < MAX_BODY and (chunk := await response.content.read(MAX_BODY - len(body))):
        body += chunk
    return bytes(body)


def _checked(headers: Headers) -> Headers:
    """The headers to send: only the first ``Host``, none about the connection. Invalid: one is malformed."""
    sent: list[tuple[str, str]] = []
    hosts = 0
    for name, value in headers:
        if not name or _ILLEGAL_IN_HEADER & set(name + value):
            raise Invalid(f"the HTTP header {name!r} is empty or has a line break; correct it in the pod's spec")
        hosts += name.lower() == "host"
        if name.lower() not in _FRAMING and not (name.lower() == "host" and hosts > 1):
            sent.append((name, value))
    return tuple(sent)


def _redirect_target(url: str, location: str) -> str | None:
    """The target of a redirect if it stays on the host (on any port), else None."""
    try:
        target = urljoin(url, quote(location, safe=_PATH_SAFE))
        old, new = urlsplit(url), urlsplit(target)
        stays = bool(location) and new.scheme in ("http", "https") and old.hostname == new.hostname
    except ValueError:
        return None
    return target if stays else None


def connect_failure(error: OSError) -> str:
    """The system's text for a failed connection (`Connection refused`)."""
    if isinstance(error, socket.gaierror | ssl.SSLError) or not error.errno:
        return error.strerror or str(error)
    # asyncio replaces the system's text by its own.
    return os.strerror(error.errno)


def _failure(url: str, error: Exception) -> HttpGetFailed:
    import aiohttp

    reason = str(error) or type(error).__name__
    kind = HttpGetFailed
    if isinstance(error, aiohttp.ClientConnectorError):
        origin = error.os_error
        reason = f"connect to {error.host} port {error.port}: {connect_failure(origin)}"
        if isinstance(origin, ssl.SSLError) and origin.reason in _PLAIN_HTTP:
            kind = PlainHttpAnswer
    return kind(f'Get "{url}": {reason}')
