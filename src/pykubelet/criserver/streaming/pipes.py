"""Non-blocking reads and writes of pipes and pseudo-terminals."""

import asyncio
import errno
import os
from collections.abc import Callable

_CHUNK = 32768


class PipeReader:
    """Reads from a descriptor only on request, so that the writer waits meanwhile. Closes it once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self.waiting = False
        """Whether a read waits for data."""

    async def read(self) -> bytes:
        """Read some bytes; none at the end."""
        loop = asyncio.get_running_loop()
        while self._fd >= 0:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                self.waiting = True
                await _ready(lambda call: loop.add_reader(self._fd, call), lambda: loop.remove_reader(self._fd))
                self.waiting = False
            except OSError as error:
                # EIO is the end of a pseudo-terminal.
                if error.errno == errno.EIO:
                    return b""
                raise
        return b""

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PipeWriter:
    """Writes to a descriptor, and waits while it is full. Closes it once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Write all data. Raises BrokenPipeError if there is no reader any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await _ready(lambda call: loop.add_writer(self._fd, call), lambda: loop.remove_writer(self._fd))

    def close(self) -> None:
        """Close the descriptor, which ends the input of the reader. Idempotent."""
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
