"""Pieces of a download on their way to the disk."""

import asyncio
import threading

import pytest

from pykubelet.base.units import MIB
from pykubelet.criserver.images.content import BadBlob
from pykubelet.criserver.images.registry.blob_spool import BlobSpool
from pykubelet.testing.wait import until

_PIECE = bytes(MIB)


class _Sink:
    """A sink whose writes wait for ``go``."""

    def __init__(self) -> None:
        self.offset = 0
        self.go = threading.Event()
        self.begun = 0
        self.error: Exception | None = None

    def resume(self) -> int:
        return 0

    def restart(self) -> None:
        self.offset = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.begun += 1
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        self.offset += len(data)

    def commit(self) -> None:
        raise AssertionError("the spool must not commit")


@pytest.fixture
def sink() -> _Sink:
    return _Sink()


async def test_next_piece_arrives_while_one_is_written(sink: _Sink) -> None:
    spool = BlobSpool(sink, "blob")
    await spool.add(_PIECE)
    await until(lambda: sink.begun == 1)
    await spool.add(_PIECE[:-1])
    assert (spool.offset, sink.offset) == (2 * MIB - 1, 0)
    second = asyncio.create_task(spool.add(b"x"))
    done, _ = await asyncio.wait([second], timeout=0.05)
    assert not done, "at most one piece is ahead of the disk"
    sink.go.set()
    await second
    await spool.add(b"end")
    await spool.close()
    assert sink.offset == 2 * MIB + 3


async def test_data_after_a_failed_write_is_dropped(sink: _Sink) -> None:
    spool = BlobSpool(sink, "blob")
    await spool.add(_PIECE)
    sink.error = BadBlob("longer than announced")
    sink.go.set()
    with pytest.raises(BadBlob):
        await spool.add(_PIECE)
    sink.error = None
    await spool.close()
    assert sink.offset == 0, "a gap in the blob"


async def test_cancelled_download_leaves_no_write_behind(sink: _Sink) -> None:
    spool = BlobSpool(sink, "blob")

    async def download() -> None:
        try:
            await spool.add(_PIECE)
            await asyncio.Event().wait()
        finally:
            await spool.close()

    task = asyncio.create_task(download())
    await until(lambda: sink.begun == 1)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done, "the thread still writes to the file"
    sink.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sink.offset == MIB
