"""Client of the agent's local API on asyncio, for the live view, which follows several streams and ends them."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.cli.client.local_api import error_of, target_of

_TIMEOUT_SECONDS: Final[Seconds] = 10.0
_STREAM: Final = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_SECONDS)
_LONGEST_LINE: Final = 64 << 20


class LiveApi:
    """Requests to one agent, as an async context manager. Errors are those of `LocalApi`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._client = aiohttp.ClientSession(
            "http://localhost",
            connector=aiohttp.UnixConnector(path=str(path), limit=0),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
        )

    async def __aenter__(self) -> "LiveApi":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, path: str, **query: object) -> Any:
        """Return the JSON object at the path."""
        return await self._call("GET", path, query)

    async def post(self, path: str, **query: object) -> Any:
        """Ask the agent to do something, and return its answer."""
        return await self._call("POST", path, query)

    async def watch(self, path: str, version: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield type and object of each change after a version; ends when the agent ends the stream."""
        async for line in self.lines(path, watch="true", resourceVersion=version):
            try:
                event = json.loads(line)
                change = event["type"], event["object"]
            except (ValueError, LookupError, TypeError) as error:
                raise Transient(f"the answer from {self._path} is no JSON ({error})") from error
            yield change

    async def lines(self, path: str, **query: object) -> AsyncIterator[bytes]:
        """Yield the lines of a streamed answer as they arrive; ends when the agent ends the answer."""
        try:
            async with self._client.get(target_of(path, query), timeout=_STREAM) as response:
                if response.status >= 400:
                    raise error_of(response.status, await response.read())
                rest = b""
                async for piece in response.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line
                    if len(rest) > _LONGEST_LINE:
                        raise Transient(f"a line of {path} is longer than {_LONGEST_LINE >> 20} MiB")
                if rest:
                    yield rest
        except (aiohttp.ClientError, OSError) as error:
            raise self._gone(error) from error

    async def _call(self, method: str, path: str, query: Mapping[str, object]) -> Any:
        try:
            async with self._client.request(method, target_of(path, query)) as response:
                body = await response.read()
                if response.status >= 400:
                    raise error_of(response.status, body)
                return json.loads(body or b"null")
        except TimeoutError as error:
            raise Transient(f"the agent at {self._path} is not responding within {_TIMEOUT_SECONDS:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._gone(error) from error
        except ValueError as error:
            raise Transient(f"the answer from {self._path} is no JSON ({error})") from error

    def _gone(self, error: Exception) -> Transient:
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        words = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause) or type(cause).__name__
        return Transient(f"{words} ({self._path})")
