"""Connections to the runtime's streaming URLs, and the upgrade handshake with them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from msgspec import Struct

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.base.http.upgrade import UpgradeResponse, closing, request_head, request_upgrade
from pykubelet.base.units import KIB, Seconds

Headers: TypeAlias = Sequence[tuple[str, str]]

_CONNECT: Final[Seconds] = 10.0
_BUFFER: Final = 64 * KIB
_NOT_PASSED: Final = frozenset({"host", "authorization", "cookie", "content-length", "transfer-encoding"})
"""Headers meant for this server, not for the runtime."""


def check_upgrade(request: web.Request) -> None:
    """Check that the request asks for a protocol upgrade. Invalid: it does not, or it has a body."""
    tokens = {token.strip().lower() for token in request.headers.get("Connection", "").split(",")}
    if "upgrade" not in tokens or not request.headers.get("Upgrade"):
        raise Invalid("unable to upgrade: the request lacks the headers Connection: Upgrade and Upgrade")
    if request.can_read_body:
        raise Invalid("unable to upgrade: the request has a body")


class Backend(Struct, frozen=True, kw_only=True):
    """A connection to one streaming URL of the runtime."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    target: SplitResult

    async def handshake(self, method: str, headers: Headers) -> UpgradeResponse:
        """Request an upgrade; return the runtime's answer. Transient: no answer."""
        path = (self.target.path or "/") + (f"?{self.target.query}" if self.target.query else "")
        return await request_upgrade(
            self.reader, self.writer, request_head(method, path, [("Host", self.target.netloc), *headers])
        )

    async def spdy(self, protocol: str) -> UpgradeResponse:
        """Request an upgrade to SPDY."""
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)]
        return await self.handshake("POST", headers)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Backend]:
    """Connect to a streaming URL for the ``with`` block. Permanent: unsupported URL; Transient: not responding."""
    target = _parse(url)
    try:
        async with asyncio.timeout(_CONNECT):
            reader, writer = await asyncio.open_connection(target.hostname, target.port or 80, limit=_BUFFER)
    except (OSError, TimeoutError) as error:
        raise Transient(f"the runtime's streaming server at {target.netloc} is not responding: {error}") from error
    async with closing(writer, within=1.0):
        yield Backend(reader=reader, writer=writer, target=target)


def passed_on(request: web.Request) -> Headers:
    """Return the client's headers to pass on to the runtime, unchanged."""
    return [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED]


def refusal(answer: UpgradeResponse) -> web.Response:
    """Return the runtime's refusal as the answer to the client."""
    status = answer.status if answer.status >= 400 else 502
    return web.Response(status=status, text=answer.text)


def _parse(url: str) -> SplitResult:
    target = urlsplit(url)
    if target.scheme != "http" or not target.hostname:
        raise Permanent(f"unsupported streaming URL from the runtime: it has scheme {target.scheme}, not http")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise Permanent("unsupported streaming URL from the runtime: it contains white space")
    return target
