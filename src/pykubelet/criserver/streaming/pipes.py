"""Pipes and pseudo-terminals, read and written without blocking the loop."""

import asyncio
import errno
import os
from collections.abc import Callable

_CHUNK = 32768


class PipeReader:
    """Reads from a descriptor only when it is asked to: whoever writes waits meanwhile. Closes it once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self.waiting = False
        """Nothing is there to be read."""

    async def read(self) -> bytes:
        """Some bytes; none at the end."""
        loop = asyncio.get_running_loop()
        while self._fd >= 0:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                self.waiting = True
                await _ready(lambda call: loop.add_reader(self._fd, call), lambda: loop.remove_reader(self._fd))
                self.waiting = False
            except OSError as error:
                # So a pseudo-terminal ends.
                if error.errno == errno.EIO:
                    return b""
                raise
        return b""

    def close(self) -> None:
        """Read no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PipeWriter:
    """Writes to a descriptor; waits when it is full. Closes it once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Write all of it. BrokenPipeError when nobody reads any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await _ready(lambda call: loop.add_writer(self._fd, call), lambda: loop.remove_writer(self._fd))

    def close(self) -> None:
        """Say that no more comes."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


async def _ready(watch: Callable[[Callable[[], None]], None], forget: Callable[[], bool]) -> None:
    ready = asyncio.Event()
    watch(ready.set)
    try:
        await ready.wait()
    finally:
        forget()
