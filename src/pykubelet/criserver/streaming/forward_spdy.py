"""Port-forward over SPDY (``portforward.k8s.io``): each connection is a pair of streams, data and errors.

The client makes both, tells the port in their headers, and marks what belongs together by a request's number.
"""

import asyncio
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.spdy import Link, SpdyConnection, SpdyStream
from pykubelet.criserver.streaming.forward import connect, relay
from pykubelet.criserver.streaming.spdy_client import CREATION
from pykubelet.criserver.streaming.types import Forward

PROTOCOLS: Final = ("portforward.k8s.io",)


async def forward(target: Forward, link: Link) -> None:
    """Serve the client's pairs until it goes."""
    async with asyncio.TaskGroup() as group:
        pairs = _Pairs(target, group)
        async with SpdyConnection.over(link, pairs.accept) as connection:
            await connection.ended.wait()
            pairs.cancel()


class _Pair:
    """The streams of one connection as they come."""

    def __init__(self) -> None:
        self.data: SpdyStream | None = None
        self.error: SpdyStream | None = None
        self.complete = asyncio.Event()

    def add(self, kind: str, stream: SpdyStream) -> bool:
        """False: there is one of that kind already."""
        if getattr(self, kind) is not None:
            return False
        setattr(self, kind, stream)
        if self.data is not None and self.error is not None:
            self.complete.set()
        return True


class _Pairs:
    """All connections of one client."""

    def __init__(self, target: Forward, group: asyncio.TaskGroup) -> None:
        self._target = target
        self._group = group
        self._pairs: dict[str, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, stream: SpdyStream) -> bool:
        """Whether a stream has what it needs, and none of its kind was there."""
        kind, port = stream.header("streamtype").lower(), _port(stream)
        if kind not in ("data", "error") or port is None:
            return False
        request = _request(stream, kind)
        pair = self._pairs.get(request)
        if pair is None:
            pair = self._pairs[request] = _Pair()
            task = self._group.create_task(self._serve(request, pair), name=f"forward-{port}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return pair.add(kind, stream)

    def cancel(self) -> None:
        """The client has gone."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, request: str, pair: _Pair) -> None:
        try:
            async with asyncio.timeout(CREATION):
                await pair.complete.wait()
            await self._forward(pair)
        except TimeoutError:
            if pair.error is not None:
                with suppress(ConnectionError):
                    await pair.error.write(b"timed out waiting for streams")
        finally:
            del self._pairs[request]
            # The error stream ends before the other is given up: clients read it to its end.
            if pair.error is not None:
                pair.error.finish()
            if pair.data is not None:
                pair.data.finish()
                pair.data.reset()

    async def _forward(self, pair: _Pair) -> None:
        assert pair.data is not None
        assert pair.error is not None
        port = _port(pair.data) or 0
        with suppress(ConnectionError):
            try:
                with await connect(self._target.netns, port, self._target.owner) as connection:
                    await relay(connection, pair.data)
            except PykubeletError as error:
                words = f"error forwarding port {port} to pod {self._target.sandbox}: {error}"
                await pair.error.write(words.encode())


def _port(stream: SpdyStream) -> int | None:
    value = stream.header("port")
    return int(value) if value.isascii() and value.isdecimal() and 0 < int(value[:6]) < 65536 else None


def _request(stream: SpdyStream, kind: str) -> str:
    """The request's number. Old clients gave none, but made the error stream just before the other."""
    given = stream.header("requestid")
    if given:
        return given
    return f"stream {stream.number if kind == 'error' else stream.number - 2}"
