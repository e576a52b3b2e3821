"""Queue of downloaded data on its way to the disk."""

import asyncio
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.units import MIB
from pykubelet.criserver.images.image_interfaces import BlobSink

_PIECE: Final = 1 * MIB


class BlobSpool:
    """Hashes and writes a blob in pieces, in a thread, while the next piece arrives. ``close`` must be called."""

    def __init__(self, sink: BlobSink, owner: str) -> None:
        self._sink = sink
        self._owner = owner
        self._pending = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self.offset = sink.offset
        """The size of the blob so far, with what is not written yet."""

    async def add(self, data: bytes) -> None:
        """Take bytes. Raises what the sink raised for an earlier piece; then the rest is dropped."""
        self._pending += data
        self.offset += len(data)
        if len(self._pending) >= _PIECE:
            await self._finish_piece()
            whole, self._pending = self._pending, bytearray()
            self._writing = asyncio.create_task(self._write(whole), name=self._owner)

    async def close(self) -> None:
        """Write the remaining data; no thread writes any more afterwards. Errors as of ``add``."""
        await self._finish_piece()
        whole, self._pending = self._pending, bytearray()
        if whole:
            await self._write(whole)

    async def _write(self, piece: bytearray) -> None:
        await blocking.call_to_end(self._owner, self._sink.write, piece, deadline=None)

    async def _finish_piece(self) -> None:
        task, self._writing = self._writing, None
        if task is not None:
            try:
                await task
            except BaseException:
                self._pending.clear()
                raise
