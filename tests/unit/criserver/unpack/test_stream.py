"""Decompression of layers whose format has more than one frame."""

import io
import os
import tarfile

import pytest

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
