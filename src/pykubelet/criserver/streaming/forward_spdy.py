"""Port-forward over SPDY (``portforward.k8s.io``): each connection is a pair of streams, data and errors.

The client creates both streams; their headers give the port and the request id, which is the same for a pair.
"""

import asyncio
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.http.port_number import parse_port
from pykubelet.base.spdy import Bounds, Link, SpdyConnection, SpdyStream
from pykubelet.criserver.streaming.forward import connect, relay
from pykubelet.criserver.streaming.spdy_client import CREATION
from pykubelet.criserver.streaming.streaming_types import Forward

PROTOCOLS: Final = ("portforward.k8s.io",)
MOST: Final = 256
"""Connections of one client at a time; more are refused."""
_REQUEST: Final = 64
"""Characters of a request id."""


async def forward(target: Forward, link: Link, bounds: Bounds | None = None) -> None:
    """Serve the connections of a client until it disconnects."""
    async with asyncio.TaskGroup() as group:
        pairs = _Pairs(target, group)
        async with SpdyConnection.over(link, pairs.accept, bounds) as connection:
            await connection.ended.wait()
            pairs.cancel()


class _Pair:
    """The two streams of one connection, and the task that serves them."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.data: SpdyStream | None = None
        self.error: SpdyStream | None = None
        self.complete = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def add(self, kind: str, stream: SpdyStream) -> bool:
        """Add a stream; returns False if the pair has one of that kind already."""
        if getattr(self, kind) is not None:
            return False
        setattr(self, kind, stream)
        stream.on_broken = self.cancel
        if kind == "error":
            stream.ignore()
        if self.data is not None and self.error is not None:
            self.complete.set()
        return True

    def cancel(self) -> None:
        """Stop serving: the client has reset a stream or has gone."""
        if self.task is not None:
            self.task.cancel()

    def end(self) -> None:
        """Close both streams."""
        # The error stream ends before the data stream is reset: clients read it to its end.
        if self.error is not None:
            self.error.finish()
        if self.data is not None:
            self.data.finish()
            self.data.reset()


class _Pairs:
    """All pairs of one client."""

    def __init__(self, target: Forward, group: asyncio.TaskGroup) -> None:
        self._target = target
        self._group = group
        self._pairs: dict[str, _Pair] = {}

    def accept(self, stream: SpdyStream) -> bool:
        """Accept a stream if its headers are valid, its pair has none of that kind, and there are few enough pairs."""
        kind, port = stream.header("streamtype").lower(), parse_port(stream.header("port"))
        if kind not in ("data", "error") or port is None:
            return False
        request = _request(stream, kind)
        pair = self._pairs.get(request)
        if pair is None:
            if len(self._pairs) >= MOST or len(request) > _REQUEST:
                return False
            pair = self._pairs[request] = _Pair(port)
            pair.task = self._group.create_task(self._serve(pair), name=f"forward-{port}")
            # A callback, and not the end of the coroutine: a task that is cancelled at once never begins.
            pair.task.add_done_callback(lambda _: self._pairs.pop(request).end())
        return pair.add(kind, stream)

    def cancel(self) -> None:
        """Stop serving all pairs: the client has gone."""
        for pair in self._pairs.values():
            pair.cancel()

    async def _serve(self, pair: _Pair) -> None:
        with suppress(ConnectionError):
            try:
                async with asyncio.timeout(CREATION):
                    await pair.complete.wait()
            except TimeoutError:
                if pair.error is not None:
                    await pair.error.write(b"timed out waiting for streams")
                return
            await self._forward(pair)

    async def _forward(self, pair: _Pair) -> None:
        assert pair.data is not None
        assert pair.error is not None
        try:
            with await connect(self._target.netns, pair.port, self._target.owner) as connection:
                await relay(connection, pair.data)
        except PykubeletError as error:
            words = f"error forwarding port {pair.port} to pod {self._target.sandbox}: {error}"
            await pair.error.write(words.encode())


def _request(stream: SpdyStream, kind: str) -> str:
    """The request id. Old clients give none, but create the error stream just before the data stream."""
    given = stream.header("requestid")
    if given:
        return given
    return f"stream {stream.number if kind == 'error' else stream.number - 2}"
