"""HTTP requests to a registry. Redirects are followed here, so that credentials are never sent to another host."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, field

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.http.proxy import proxy_for, refusal
from pykubelet.base.http.tls_clients import plain_context, system_context, verifying_context
from pykubelet.base.text import encodable
from pykubelet.base.units import Seconds
from pykubelet.criserver.images.image_types import Denied, RegistryUnavailable, Unauthenticated, Unreachable
from pykubelet.criserver.images.registry.config import Tls, shown_url

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_ERROR = 16 * 1024
_ANSWER: Seconds = 90.0
"""Time limit for the connection and the head of a response."""
_READ: Seconds = 60.0
"""Time limit of one read."""
_WHOLE: Seconds = 120.0
"""Time limit for the body of a manifest, a token or an error."""
_MAX_RETRY_AFTER = 120.0
_AGENT = "pykubelet"
_OUR_OWN = frozenset(("accept", "accept-encoding", "authorization", "range"))
"""Headers that this client sets, in lower case."""
_QUOTED = re.compile(r"[A-Za-z0-9:/?#\[\]@!$&'()*+,;=._~%-]+")
"""The characters of a URL (RFC 3986)."""
_CLIENT_ALERTS = ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_CERTIFICATE_EXPIRED")
"""TLS alerts by which a server rejects the client certificate or requires one."""


class ServerTls(Struct, frozen=True):
    """Verification of the identity of one server, and of those that it sends its clients to."""

    host: str = ""
    """Its name, without the port."""
    own: ssl.SSLContext | None = None
    """For the server itself; None: the system's authorities."""
    others: ssl.SSLContext | None = None
    """For redirects and token services on other hosts: its authorities, but not its other settings."""

    def context(self, url: str, proxy: str = "") -> "ssl.SSLContext | bool":
        """Return the TLS context to verify a URL's server, or the proxy of one without TLS."""
        parts = urlsplit(url)
        if parts.scheme != "https":
            return plain_context(proxy)
        found = self.own if parts.hostname == self.host else self.others
        return system_context() if found is None else found


class Request(Struct, frozen=True):
    """A request to a registry or token service."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: str = ""
    """Authorization header for the first host only."""
    form: Mapping[str, str] | None = None
    further: tuple[tuple[str, str], ...] = ()
    """Headers for the first host only, which must not override the others."""
    connect: Seconds = 30.0
    """Time limit of a connection's establishment."""
    tls: ServerTls = ServerTls()


class Wire:
    """Sends the requests of one pull in one session."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session

    @asynccontextmanager
    async def send(self, request: Request) -> "AsyncIterator[ClientResponse]":
        """Send a request, follow redirects, and yield the response.

        Raises Unreachable if the server cannot be reached or the connection is lost, Permanent for a redirect
        that must not be followed or a certificate that is not trusted.
        """
        import aiohttp

        url, own = request.url, _own_headers(request)
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                async with asyncio.timeout(_ANSWER):
                    answer = await self._ask(request, url, own)
                async with answer as response:
                    if response.status not in _REDIRECTS or request.method not in ("GET", "HEAD"):
                        yield response
                        return
                    target = _redirected(url, response.headers.get("Location", ""))
                if not same_origin(target, url):
                    own = {}
                url = target
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise Permanent(_certificate_message(url, error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            said = _said(error)
            if any(alert in said for alert in _CLIENT_ALERTS):
                raise Unauthenticated(f"{_origin(url)} requires a (different) client certificate ({said})") from error
            raise Unreachable(f"{_origin(url)} cannot be reached or stopped responding: {said}") from error
        raise Permanent(f"{_origin(request.url)} redirects more than {_MAX_REDIRECTS} times")

    async def _ask(self, request: Request, url: str, own: Mapping[str, str]) -> "ClientResponse":
        import aiohttp
        from yarl import URL

        try:
            proxy = proxy_for(url, os.environ)
            return await self._session.request(
                request.method,
                URL(url, encoded=_is_quoted(url)),
                headers={**own, **request.headers},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.connect, sock_read=_READ),
                data=request.form,
                allow_redirects=False,
                proxy=proxy or None,
                ssl=request.tls.context(url, proxy),
            )
        except aiohttp.ClientError:
            raise  # some are ValueErrors, too
        except ValueError as error:  # a registry names the URLs of redirects and token services
            raise Permanent(f"{shown_url(url)} is not a valid URL: {error}") from error


def _own_headers(request: Request) -> dict[str, str]:
    """The headers that only the first host may see."""
    further = {name: value for name, value in request.further if name.lower() not in _OUR_OWN}
    return further | ({"Authorization": request.authorization} if request.authorization else {})


@asynccontextmanager
async def open_wire() -> AsyncIterator[Wire]:
    """Open the session of one pull: no cookies, no decompression, no total deadline but one for each read."""
    import aiohttp  # heavy; only pulls need it

    from pykubelet.base.http.head_limits import BoundedConnector

    async with aiohttp.ClientSession(
        connector=BoundedConnector(),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=_READ),
        headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"},
    ) as session:
        yield Wire(session)


def load_server_tls(base: str, tls: Tls) -> ServerTls:
    """Load the TLS settings of the server at ``base``. Blocks. Raises Invalid, which names the host and the file."""
    parts = urlsplit(base)
    host, name = parts.hostname or "", parts.netloc
    if tls == Tls() or parts.scheme != "https":
        return ServerTls(host)
    authorities = Tls(ca=tls.ca, further_ca=tls.further_ca)
    others = None if authorities == Tls() else load_tls(name, authorities)
    return ServerTls(host, load_tls(name, tls), others)


def load_tls(host: str, tls: Tls) -> ssl.SSLContext:
    """Load a TLS context from files. Blocks. Raises Invalid, which names the host and the file."""
    what = f"registry {host}"
    try:
        context = verifying_context(tls.ca or None)
    except (OSError, ValueError) as error:
        raise Invalid(f"{what}: its ca {tls.ca!r} cannot be used: {_reason(error)}") from error
    for file in tls.further_ca:
        try:
            context.load_verify_locations(cafile=file)
        except (OSError, ValueError) as error:
            raise Invalid(f"{what}: its ca {file!r} cannot be used: {_reason(error)}") from error
    if tls.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.client_certificate:
        try:
            context.load_cert_chain(tls.client_certificate, tls.client_key or None, password=lambda: b"")
        except (OSError, ValueError) as error:
            file = tls.client_certificate
            raise Invalid(f"{what}: its client_certificate {file!r} cannot be used: {_reason(error)}") from error
    return context


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


async def read_bounded(response: "ClientResponse", limit: int, what: str) -> bytes:
    """Read the whole body. Raises Permanent if it is larger than the limit, TimeoutError if it takes two minutes."""
    body = bytearray()
    async with asyncio.timeout(_WHOLE):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                raise Permanent(f"{what}: the answer is larger than {limit} bytes")
    return bytes(body)


async def next_piece(response: "ClientResponse") -> bytes:
    """Return what has arrived of the body; empty: it has ended. TimeoutError: nothing of it came within a minute.

    The deadline of the read itself goes on with any byte, such as one of a chunk's extension that has no end.
    """
    async with asyncio.timeout(_READ):
        return await response.content.readany()


async def failure(response: "ClientResponse", what: str) -> PykubeletError:
    """The error for an unsuccessful response, with the registry's message."""
    said = await _message(response)
    status = response.status
    text = f"{what}: {_origin(str(response.url))} answered {status} {response.reason}" + (f": {said}" if said else "")
    if status == 404:
        return NotFound(text)
    if status == 401:
        return Unauthenticated(f"{text}; wrong or missing credentials, or no such repository")
    if status == 403:
        return Denied(f"{text}; the credentials are not sufficient, or there is no such repository")
    if status in (408, 425, 429) or status >= 500:
        return RegistryUnavailable(text, _retry_after(response))
    return Permanent(text)


async def _message(response: "ClientResponse") -> str:
    """The message in an error response (distribution specification, "Error Codes"), shortened to one line."""
    with suppress(Permanent, TimeoutError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        data = await read_bounded(response, _MAX_ERROR, "")
        if response.status == 400 and b"HTTPS server" in data:
            return "it uses TLS; configure how to verify its certificate in the registries file (ca or skip_verify)"
        first = json.loads(data)["errors"][0]
        return " ".join(f"{first.get('code', '')} {first.get('message', '')}".split())[:300]
    return ""


def _retry_after(response: "ClientResponse") -> float | None:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3): a number, or a time by the server's clock."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal() and value.isascii():
        return min(float(value), _MAX_RETRY_AFTER)
    until, now = _http_time(value), _http_time(response.headers.get("Date", ""))
    return None if until is None or now is None else min(max(0.0, until - now), _MAX_RETRY_AFTER)


def _http_time(text: str) -> float | None:
    """A time of HTTP in seconds since the epoch; None: it is invalid."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _said(error: BaseException) -> str:
    """The cause of an error, without the words of the library, which speaks of TLS also for plain HTTP."""
    import aiohttp

    if isinstance(error, aiohttp.ClientHttpProxyError):
        return refusal(error.status, error.message)
    if isinstance(error, aiohttp.InvalidURL):  # its text may have the password of a proxy
        return "its URL or that of the proxy is invalid"
    if isinstance(error, aiohttp.ConnectionTimeoutError):  # its text has the URL, which may be a signed one
        return "connecting takes too long"
    cause = getattr(error, "os_error", None) or error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _certificate_message(url: str, error: Exception) -> str:
    words = " ".join(str(error).split())
    if "WRONG_VERSION_NUMBER" in words or "RECORD_LAYER_FAILURE" in words:
        return f"{_origin(url)} does not use TLS; set plain_http for it to pull without TLS ({words})"
    return f"{_origin(url)}: its certificate is not trusted; set its authority as ca in the registries file ({words})"


def _origin(url: str) -> str:
    """The scheme, host and port of a URL, without the user and password that a redirect may name."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have the same origin (RFC 6454)."""

    def origin(url: str) -> tuple[str, str | None, int | None]:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)

    return origin(one) == origin(other)


def _has_host(url: str) -> bool:
    """Whether the text is an HTTP URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_quoted(url: str) -> bool:
    """Whether a URL can be sent as it is. Storage services sign the text of a URL: quoting it again would break it."""
    return _QUOTED.fullmatch(url) is not None


def _redirected(url: str, location: str) -> str:
    """The target URL of a redirect. Raises Permanent if it must not be followed."""
    try:
        target = urljoin(url, location)
    except ValueError:
        target = location
    if not _has_host(target) or not encodable(target):
        raise Permanent(f"{_origin(url)} redirects to {shown_url(target)}, which is not a valid URL")
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme == "http":
        raise Permanent(f"{_origin(url)} redirects to {_origin(target)} without TLS; the redirect is not followed")
    return target
