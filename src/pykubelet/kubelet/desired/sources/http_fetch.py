"""Fetches a manifest by HTTP with aiohttp, within limits of size, time and redirects."""

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from pykubelet.base.errors import Transient
from pykubelet.base.http.tls_clients import system_context
from pykubelet.base.text import encodable
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES
from pykubelet.kubelet.desired.sources.source_interfaces import Response

if TYPE_CHECKING:
    import aiohttp

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class AiohttpFetch:
    """A `Fetch` with one session, kept open between requests. Proxy variables of the environment are not used."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        """Fetch a URL. A redirect to another host, port or scheme is refused, since headers may hold credentials.

        Raises Transient on any failure, the deadline (seconds for the whole exchange) included.
        """
        import aiohttp

        from pykubelet.base.http.head_limits import BoundedConnector

        if self._session is None:
            # Compressed responses are neither requested nor unpacked: a small one could expand to a huge one.
            self._session = aiohttp.ClientSession(
                connector=BoundedConnector(),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        try:
            async with asyncio.timeout(timeout):
                for _ in range(MAX_REDIRECTS + 1):
                    target = await self._once(self._session, url, headers)
                    if isinstance(target, Response):
                        return target
                    url = target
        except TimeoutError as error:
            raise Transient(f"no answer within {timeout:g} s") from error
        except aiohttp.InvalidURL as error:
            raise Transient("no answer: the URL is invalid") from error  # the error's text has it, with its password
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Transient(f"no answer: {str(error) or type(error).__name__}") from error
        raise Transient(f"more than {MAX_REDIRECTS} redirects")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _once(
        self, session: "aiohttp.ClientSession", url: str, headers: tuple[tuple[str, str], ...]
    ) -> Response | str:
        """Send one request; return the response, or the target of a redirect."""
        sent = [*headers, ("Accept-Encoding", "identity")]
        context = system_context() if urlsplit(url).scheme == "https" else True
        async with session.get(url, headers=sent, allow_redirects=False, ssl=context) as response:
            if response.status in _REDIRECTS:
                target = urljoin(url, response.headers.get("Location", ""))
                if _place(target) != _place(url):
                    raise Transient("redirects to another host, which is not followed; give the final URL")
                return target
            body = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                body += chunk
                if len(body) > MAX_BYTES:
                    break
            etag = response.headers.get("ETag", "")
            return Response(response.status, bytes(body), etag if encodable(etag) else "")


def _place(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
