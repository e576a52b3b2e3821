"""Decompression of layers whose format has more than one frame."""

import hashlib
import io
import os
import tarfile
import threading

import pytest
import zstandard

from pykubelet.criserver.unpack import stream
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.criserver.unpack.stream import ByteStream, plain_chunks
from tests.unit.criserver.unpack.chunked import frame, zstd_chunked


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(5):
            info = tarfile.TarInfo(f"file-{number}")
            data = os.urandom(100_000 * number)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class _Trickle(io.BytesIO):
    """Returns a few bytes at a time, so that frames begin and end in the middle of reads."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 1001))


@pytest.mark.parametrize("kind", [io.BytesIO, _Trickle])
def test_zstd_chunked_layer_is_its_tar_stream_alone(kind: type[io.BytesIO]) -> None:
    plain = _tar()
    packed = zstd_chunked(plain)
    assert packed[-8:] == b"GNUlInUx", "the footer of the format"
    assert b"".join(plain_chunks(kind(packed), Limits())) == plain


def test_table_of_contents_larger_than_a_read_is_skipped() -> None:
    plain = _tar()
    packed = zstd_chunked(plain)
    assert b"".join(plain_chunks(io.BytesIO(frame(bytes(3 << 20)) + packed + frame(bytes(3 << 20))), Limits())) == plain


@pytest.mark.timeout(20)
def test_any_error_of_the_thread_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: object, limits: Limits) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(stream, "plain_chunks", fails)
    plain = ByteStream(io.BytesIO(b""), Limits())
    with pytest.raises(RuntimeError, match="not foreseen"):
        plain.take(1)
    plain.close()


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & {"inflate", "digest"}


def test_digest_is_that_of_the_whole_stream_though_only_a_part_was_read() -> None:
    plain = _tar() * 30
    stream_ = ByteStream(io.BytesIO(zstandard.compress(plain)), Limits(), digest=True)
    stream_.take(1000)
    assert _threads() == {"inflate", "digest"}
    assert stream_.finish() == "sha256:" + hashlib.sha256(plain).hexdigest()
    stream_.close()
    assert _threads() == set()


@pytest.mark.timeout(20)
def test_stream_that_is_closed_early_leaves_no_thread() -> None:
    stream_ = ByteStream(io.BytesIO(bytes(64 << 20)), Limits(), digest=True)
    stream_.take(1000)
    stream_.close()
    assert _threads() == set()


@pytest.mark.timeout(20)
def test_error_of_the_digest_reaches_the_reader_and_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingDigest:
        def update(self, piece: bytes) -> None:
            raise MemoryError("no memory for a digest")

    monkeypatch.setattr(hashlib, "sha256", FailingDigest)
    stream_ = ByteStream(io.BytesIO(bytes(64 << 20)), Limits(), digest=True)
    assert len(stream_.take(64 << 20)) == 64 << 20
    with pytest.raises(MemoryError, match="no memory for a digest"):
        stream_.finish()
    stream_.close()
    assert _threads() == set()
