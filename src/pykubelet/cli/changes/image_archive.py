"""Writes an exported archive to a file, which appears when it is complete, or to standard output."""

import secrets
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.linux.errors import wrap

Write = Callable[[bytes], None]
_SUFFIXES = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


@contextmanager
def archive_writer(target: Path, compress: str) -> Iterator[Write]:
    """Yield a function that writes pieces of the archive. ``compress`` auto follows the file's extension.

    An error leaves no file. Invalid: the file cannot be created. Transient: the disk is full.
    """
    kind = _SUFFIXES.get(target.suffix, "none") if compress == "auto" else compress
    if str(target) == "-":
        with _compressed(sys.stdout.buffer.write, kind) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    # Other users cannot know the name, so they cannot put a link there, as in /tmp.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with partial.open("xb") as file, _compressed(file.write, kind) as write:
            yield write
        partial.replace(target)
    except PykubeletError:
        raise
    except OSError as error:
        raise wrap(error, f"cannot write {target}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _compressed(write: Callable[[bytes], object], kind: str) -> Iterator[Write]:
    if kind == "gzip":
        packer = zlib.compressobj(_GZIP_LEVEL, wbits=31)
        yield lambda piece: _take(write, packer.compress(piece))
        write(packer.flush())
    elif kind == "zstd":
        try:
            import zstandard  # only where it is asked for
        except ImportError as error:
            raise Invalid("zstd compression requires the Python package zstandard") from error
        frame = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
        yield lambda piece: _take(write, frame.compress(piece))
        write(frame.flush())
    else:
        yield lambda piece: _take(write, piece)


def _take(write: Callable[[bytes], object], data: bytes) -> None:
    write(data)
