"""Decompression of a blob into the plain tar stream, and its digest, in threads beside the one that writes.

zlib, zstd and SHA-256 release the interpreter lock. SHA-256 takes as long as zstd: in the thread that inflates, it
would double the time of a layer, while another core has nothing to do.
"""

import hashlib
import queue
import threading
import zlib
from collections.abc import Iterator
from typing import IO, cast

from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.unpack.limits import BadLayer, Limits

_READ = 256 * KIB
_CHUNK = 1 * MIB
_LEAST_WINDOW = 1 * KIB
"""Smallest input to zlib, which copies the input after the end of a member: so members may be tiny and a million."""
_QUEUED_PIECES = 8
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = (0x184D2A50, 0x184D2A5F)
_ZSTD_WINDOW = 128 * MIB


class _CountingFile:
    """A file that counts the bytes read, and returns its first bytes again after the magic number was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0
        self._head = self._read(_READ)
        self.magic = self._head[:4]

    def read(self, size: int = _READ) -> bytes:
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data


def plain_chunks(file: IO[bytes], limits: Limits) -> Iterator[bytes]:
    """Decompress a gzip, zstd or plain file, detected by its first bytes, as media types are too often wrong.

    Raises BadLayer for damaged data and for data beyond the limits.
    """
    source = _CountingFile(file)
    total = 0
    for chunk in _decompressed(source):
        total += len(chunk)
        if total > limits.max_bytes:
            raise BadLayer(f"the layer is larger than {limits.max_bytes} bytes")
        if total > limits.ratio_from and total > limits.max_ratio * source.count:
            raise BadLayer(f"the layer grows more than {limits.max_ratio}-fold when uncompressed; it looks like a bomb")
        yield chunk


def _decompressed(source: _CountingFile) -> Iterator[bytes]:
    if source.magic.startswith(_GZIP):
        return _gunzip(source)
    number = int.from_bytes(source.magic, "little")
    if source.magic == _ZSTD or _SKIPPABLE[0] <= number <= _SKIPPABLE[1]:
        return _unzstd(source)
    return iter(lambda: source.read(_CHUNK), b"")


def _gunzip(source: _CountingFile) -> Iterator[bytes]:
    """Decompress all members of a gzip file, one after the other; estargz creates thousands of them."""
    member = zlib.decompressobj(wbits=31)
    window = _READ
    while data := source.read():
        view = memoryview(data)
        while view:
            if member.eof:
                padding = bytes(view[:_LEAST_WINDOW])
                if padding[0] == 0:
                    view = view[len(padding) - len(padding.lstrip(b"\0")) :]
                    continue
                member = zlib.decompressobj(wbits=31)
            piece = view[:window]
            try:
                plain = member.decompress(piece, _CHUNK)
            except zlib.error as error:
                raise BadLayer(f"the layer's gzip data are damaged: {error}") from error
            taken = len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
            view = view[taken:]
            window = max(_LEAST_WINDOW, 2 * taken) if member.eof else min(_READ, 2 * window)
            if plain:
                yield plain
    if not member.eof:
        raise BadLayer("the layer's gzip data end too early")


def _unzstd(source: _CountingFile) -> Iterator[bytes]:
    import zstandard  # only where a layer needs it

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    reader = decompressor.stream_reader(cast(IO[bytes], source), read_across_frames=True)  # it only calls read()
    try:
        while plain := reader.read(_CHUNK):
            yield plain
    except zstandard.ZstdError as error:
        raise BadLayer(f"the layer's zstd data are damaged: {error}") from error


class _Digest:
    """SHA-256 of pieces, computed in a thread of its own. ``end`` must be called, so that the thread ends."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes] = queue.Queue(_QUEUED_PIECES)
        self._hash = hashlib.sha256()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="digest", daemon=True)
        self._thread.start()

    def add(self, piece: bytes) -> None:
        """Append a piece, which must not be empty; waits while too many are pending."""
        self._queue.put(piece)

    def end(self) -> None:
        """Wait until all pieces are hashed."""
        if self._thread.is_alive():
            self._queue.put(b"")
            self._thread.join()

    def result(self) -> str:
        """The digest with its algorithm, after ``end``. Raises what went wrong in the thread."""
        if self._error is not None:
            raise self._error
        return "sha256:" + self._hash.hexdigest()

    def _run(self) -> None:
        while piece := self._queue.get():
            if self._error is None:
                try:
                    self._hash.update(piece)
                except Exception as error:  # any: the task that adds pieces would wait for ever
                    self._error = error


class ByteStream:
    """The plain stream, for a reader that needs exact numbers of bytes. Close it, so that its threads end.

    Only with ``digest`` the whole stream is hashed, for ``finish``.
    """

    def __init__(self, file: IO[bytes], limits: Limits, *, digest: bool = False) -> None:
        self._queue: queue.Queue[bytes | Exception] = queue.Queue(_QUEUED_PIECES)
        self._digest = _Digest() if digest else None
        self._stop = False
        self._chunk = memoryview(b"")
        self._ended = False
        self.position = 0
        self._thread = threading.Thread(target=self._produce, args=(file, limits), name="inflate", daemon=True)
        self._thread.start()

    def take(self, count: int) -> bytes:
        """Read exactly ``count`` bytes; fewer only at the end of the stream."""
        piece = self.some(count)
        if len(piece) == count or not piece:
            return bytes(piece)
        parts = [bytes(piece)]
        missing = count - len(piece)
        while missing and (piece := self.some(missing)):
            parts.append(bytes(piece))
            missing -= len(piece)
        return b"".join(parts)

    def some(self, limit: int) -> memoryview:
        """Read the bytes that are available, at most ``limit``; empty only at the end."""
        if not self._chunk and not self._ended:
            self._refill()
        piece, self._chunk = self._chunk[:limit], self._chunk[limit:]
        self.position += len(piece)
        return piece

    def skip_and_take(self, skipped: int, count: int) -> bytes | None:
        """Skip bytes, then read like ``take``; None if the stream ends in the skipped bytes."""
        end = skipped + count
        if len(self._chunk) >= end:  # nearly always, and then quick
            piece = self._chunk[skipped:end].tobytes()
            self._chunk = self._chunk[end:]
            self.position += end
            return piece
        return self.take(count) if self.skip(skipped) else None

    def skip(self, count: int) -> bool:
        """Skip ``count`` bytes; returns False if the stream ends before."""
        while count:
            piece = self.some(count)
            if not piece:
                return False
            count -= len(piece)
        return True

    def finish(self) -> str:
        """Read to the end and return the digest of the whole plain stream, which is the layer's diff id."""
        while self.some(_CHUNK):
            pass
        if self._digest is None:
            return ""
        self._digest.end()
        return self._digest.result()

    def close(self) -> None:
        """Stop the threads and drop the data that have been read ahead."""
        self._stop = True
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.01)
            except queue.Empty:
                pass
        self._thread.join()
        if self._digest:
            self._digest.end()

    def _refill(self) -> None:
        item = self._queue.get()
        if isinstance(item, Exception):
            self._ended = True
            raise item
        self._ended = not item
        self._chunk = memoryview(item)

    def _produce(self, file: IO[bytes], limits: Limits) -> None:
        try:
            for chunk in plain_chunks(file, limits):
                if self._digest:
                    self._digest.add(chunk)
                self._queue.put(chunk)
                if self._stop:
                    return
            self._queue.put(b"")
        except Exception as error:  # any: the reader would wait for ever
            self._queue.put(error)
