"""The content store: every blob once, named by its digest, whole or not there.

A blob is written to ``ingest``, checked while it is written, made durable and renamed into place; a crash at any step
leaves at most a partial file, from which a later download goes on. All functions block.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.units import MIB, Bytes, Seconds
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.linux.errors import wrap

_PIECE = 1 * MIB


class BadBlob(Invalid):
    """The content is not what its digest or size says."""


class ContentStore:
    """A folder of blobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs = root / "blobs"
        self._ingest = root / "ingest"
        for folder in (root, self._blobs, self._ingest, self._blobs / "sha256", self._blobs / "sha512"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be. The digest must be a checked one."""
        algorithm, _, digits = digest.partition(":")
        return self._blobs / algorithm / digits

    def has(self, digest: str, size: int | None = None) -> bool:
        """Whether the blob is here, whole (and as large as said)."""
        try:
            found = self.path(digest).stat().st_size
        except FileNotFoundError:
            return False
        return size is None or found == size

    def read(self, digest: str, limit: int) -> bytes:
        """A small blob. NotFound; Invalid when it is larger than the limit."""
        try:
            with self.path(digest).open("rb") as file:
                data = file.read(limit + 1)
        except FileNotFoundError as error:
            raise NotFound(f"blob {digest} is not in the store") from error
        if len(data) > limit:
            raise Invalid(f"blob {digest} is larger than {limit} bytes")
        return data

    def add(self, digest: str, data: bytes) -> None:
        """Store a small blob. BadBlob: it is another one."""
        if self.has(digest, len(data)):
            return
        with self.writer(digest, len(data)) as writer:
            writer.restart()
            writer.write(data)
            writer.commit()

    def add_unnamed(self, pieces: Iterable[memoryview], size: int) -> Descriptor:
        """Store a blob whose digest is not known before; returns digest and size."""
        temporary = self._ingest / f"unnamed-{secrets.token_hex(8)}"
        found = hashlib.sha256()
        try:
            with temporary.open("xb") as file:
                for piece in pieces:
                    found.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            digest = f"sha256:{found.hexdigest()}"
            temporary.replace(self.path(digest))
            _sync_folder(self.path(digest).parent)
        except OSError as error:
            raise wrap(error, f"cannot write {temporary}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return Descriptor(digest, size)

    def writer(self, digest: str, size: int) -> "BlobWriter":
        """For one blob; it goes on from what an earlier attempt has written. One writer per digest at a time."""
        return BlobWriter(self, self._ingest / digest.replace(":", "-"), digest, size)

    def digests(self) -> set[str]:
        """All blobs that are here."""
        return {f"{kind.name}:{blob.name}" for kind in self._blobs.iterdir() for blob in kind.iterdir()}

    def remove(self, digest: str) -> None:
        """Take a blob away; done is done."""
        self.path(digest).unlink(missing_ok=True)

    def sweep(self, older_than: Seconds) -> None:
        """Take partial files away that nobody has touched since that time (Unix seconds)."""
        for partial in self._ingest.iterdir():
            with suppress(FileNotFoundError):
                if partial.stat().st_mtime < older_than:
                    partial.unlink()

    def used(self) -> tuple[Bytes, int]:
        """Bytes and inodes of everything in the store."""
        total = count = 0
        for folder in (self._ingest, *self._blobs.iterdir()):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        total += entry.stat().st_blocks * 512
                        count += 1
        return Bytes(total), count


class BlobWriter:
    """A blob on its way in. Leaving without ``commit`` keeps the partial file for the next attempt."""

    def __init__(self, store: ContentStore, partial: Path, digest: str, size: int) -> None:
        self._store = store
        self._partial = partial
        self._digest = digest
        self._size = size
        self._hash = hashlib.new(digest.partition(":")[0])
        self.offset = 0
        self._opened = False
        """Whether the offset says how much there is."""
        try:
            self._fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise wrap(error, f"cannot write {partial}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)
        if self.offset == 0 and self._opened:
            self._partial.unlink(missing_ok=True)

    def resume(self) -> int:
        """Read what is there already into the digest; returns the offset to go on from."""
        self._opened = True
        while piece := os.read(self._fd, _PIECE):
            self._hash.update(piece)
            self.offset += len(piece)
        if self.offset > self._size:
            self.restart()
        return self.offset

    def restart(self) -> None:
        """Begin anew."""
        self._opened = True
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.new(self._digest.partition(":")[0])
        self.offset = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append. BadBlob as soon as there are more bytes than announced."""
        self.offset += len(data)
        if self.offset > self._size:
            self.restart()
            raise BadBlob(f"blob {self._digest} is longer than the {self._size} bytes announced")
        view = memoryview(data)
        self._hash.update(view)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise wrap(error, f"cannot write {self._partial}") from error

    def commit(self) -> None:
        """Check size and digest and put the blob in its place, on the disk. BadBlob: what was written is dropped."""
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if self.offset != self._size or found != self._digest:
            size = self.offset
            self.restart()
            raise BadBlob(f"blob {self._digest} of {self._size} bytes came as {found} of {size} bytes")
        target = self._store.path(self._digest)
        try:
            os.fsync(self._fd)
            self._partial.replace(target)
            _sync_folder(target.parent)
        except OSError as error:
            raise wrap(error, f"cannot keep blob {self._digest}") from error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
