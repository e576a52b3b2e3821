"""A shim in the test's process: a ttRPC server that answers the calls of the task API from a table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import Message

from pykubelet.criserver.shim.ttrpc_frames import RESPONSE, Frame, FrameReader
from pykubelet.pb import ttrpc_pb2

Answer: TypeAlias = Callable[[bytes], Message | ttrpc_pb2.Status | None]
"""Gets the encoded request; returns the reply, an error, or None for no reply."""


class FakeShim(asyncio.Protocol):
    """One connection; ``calls`` collects services and methods of all connections."""

    def __init__(self, answers: Mapping[str, Answer], calls: list[tuple[str, str]], piece: int) -> None:
        self._answers = answers
        self._calls = calls
        self._piece = piece
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            request = ttrpc_pb2.Request.FromString(frame.message)
            self._calls.append((request.service, request.method))
            self._reply(frame.stream, self._answers[request.method](request.payload))

    def _reply(self, stream: int, answer: Message | ttrpc_pb2.Status | None) -> None:
        assert self._transport is not None
        if answer is None:
            return
        if isinstance(answer, ttrpc_pb2.Status):
            response = ttrpc_pb2.Response(status=answer)
        else:
            response = ttrpc_pb2.Response(payload=answer.SerializeToString())
        data = Frame(stream, RESPONSE, response.SerializeToString()).encode()
        for at in range(0, len(data), self._piece):
            self._transport.write(data[at : at + self._piece])


@asynccontextmanager
async def shim_at(
    path: Path, answers: Mapping[str, Answer], *, piece: int = 1 << 20
) -> AsyncIterator[list[tuple[str, str]]]:
    """Serve at a socket; yields the calls. ``piece``: how many bytes are written at a time."""
    calls: list[tuple[str, str]] = []
    server = await asyncio.get_running_loop().create_unix_server(lambda: FakeShim(answers, calls, piece), str(path))
    try:
        yield calls
    finally:
        server.close()


async def steps_until(done: Awaitable[object]) -> int:
    """Wait for something; return how often another task got its turn meanwhile."""
    steps = 0

    async def other() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(other())
    try:
        await done
    finally:
        counting.cancel()
    return steps
