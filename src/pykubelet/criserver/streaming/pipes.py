"""Descriptors as asyncio streams."""

import asyncio
import os

_READ = 65536


async def reader(fd: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Read from a pipe or a pseudo-terminal; closing the transport closes the descriptor."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit=_READ)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(fd, "rb", 0))
    return stream, transport


class PipeWriter:
    """Writes to a descriptor that does not block; waits when it is full. Closes it once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Write all of it. BrokenPipeError when nobody reads any more."""
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._writable()

    def close(self) -> None:
        """Say that no more comes."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, _finish, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)


def _finish(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
