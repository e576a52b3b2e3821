"""The runtime's side: connections to its streaming URLs, and the handshake there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.base.units import KIB, Seconds
from pykubelet.base.upgrade import Answer, ask, asking, closing

Headers: TypeAlias = Sequence[tuple[str, str]]

_CONNECT: Final[Seconds] = 10.0
_BUFFER: Final = 64 * KIB
_NOT_PASSED: Final = frozenset({"host", "authorization", "cookie", "content-length", "transfer-encoding"})
"""Headers that concern us and not the runtime."""


def check_upgrade(request: web.Request) -> None:
    """Invalid: the request asks for no other protocol."""
    tokens = {token.strip().lower() for token in request.headers.get("Connection", "").split(",")}
    if "upgrade" not in tokens or not request.headers.get("Upgrade"):
        raise Invalid("unable to upgrade: the request lacks the headers Connection: Upgrade and Upgrade")
    if request.can_read_body:
        raise Invalid("unable to upgrade: the request has a body")


@dataclass(frozen=True, slots=True)
class Backend:
    """A connection to one streaming URL."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    target: SplitResult

    async def handshake(self, method: str, headers: Headers) -> Answer:
        """Ask for an upgrade. Transient: no answer."""
        path = (self.target.path or "/") + (f"?{self.target.query}" if self.target.query else "")
        return await ask(self.reader, self.writer, asking(method, path, [("Host", self.target.netloc), *headers]))

    async def spdy(self, protocol: str) -> Answer:
        """Ask for SPDY."""
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)]
        return await self.handshake("POST", headers)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Backend]:
    """A connection for the time of the block. Permanent: such a URL cannot be used; Transient: nobody answers."""
    target = _parse(url)
    try:
        async with asyncio.timeout(_CONNECT):
            reader, writer = await asyncio.open_connection(target.hostname, target.port or 80, limit=_BUFFER)
    except (OSError, TimeoutError) as error:
        raise Transient(f"the runtime's streaming server at {target.netloc} does not answer: {error}") from error
    async with closing(writer, within=1.0):
        yield Backend(reader, writer, target)


def passed_on(request: web.Request) -> Headers:
    """The client's headers that the runtime is to see, as they came."""
    return [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED]


def refusal(answer: Answer) -> web.Response:
    """The runtime's refusal, for the client."""
    status = answer.status if answer.status >= 400 else 502
    return web.Response(status=status, text=answer.text)


def _parse(url: str) -> SplitResult:
    target = urlsplit(url)
    if target.scheme != "http" or not target.hostname:
        raise Permanent(f"the runtime's streaming URL begins with {target.scheme}://; only http:// is supported")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise Permanent("the runtime's streaming URL contains white space")
    return target
