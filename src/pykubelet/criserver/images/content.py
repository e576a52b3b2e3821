"""The content store: each blob once, named by its digest, complete or absent.

A blob is written to ``ingest``, checked while it is written, synced and renamed into place; a crash at any step leaves
at most a partial file, which a later download resumes. A part of the disk stays free. All functions block.
"""

import hashlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.atomic import sync_directory
from pykubelet.base.units import MIB, Bytes
from pykubelet.criserver.directories import is_regular, make_directory, set_aside
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import is_digest
from pykubelet.criserver.unpack.room import OF_IMAGES, Reserve, Room
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.writeback import WriteBack

_log = logging.getLogger(__name__)
_PIECE = 1 * MIB
_PLACE = 16
"""Digits by which partial files of one blob from several registries differ."""


class BadBlob(Invalid):
    """The content does not match its digest or size."""


class ContentStore:
    """A directory of blobs."""

    def __init__(self, root: Path, reserve: Reserve = OF_IMAGES) -> None:
        self.root = root
        self._reserve = reserve
        self._blobs = root / "blobs"
        self._ingest = root / "ingest"
        self.unusable: tuple[Path, ...] = ()
        """Files that are no blobs and cannot be set aside, such as those that the file system cannot look up."""
        kinds = (self._blobs / "sha256", self._blobs / "sha512")
        for directory in (root, self._blobs, self._ingest, *kinds):
            make_directory(directory)
        for partial in self._files(self._ingest):
            if not is_digest(_digest_of(partial)):
                # Left by a server that was killed; without a digest it cannot be resumed.
                _drop(partial)
        self._counting = threading.Lock()
        self._sizes = {f"{kind.name}:{blob.name}": blob.lstat().st_size for kind in kinds for blob in self._files(kind)}
        self._bytes = sum(self._sizes.values())

    def path(self, digest: str) -> Path:
        """The path of a blob, present or not. The digest must have been validated."""
        algorithm, _, digits = digest.partition(":")
        return self._blobs / algorithm / digits

    def has(self, digest: str, size: int | None = None) -> bool:
        """Whether the blob is in the store (and has the given size)."""
        try:
            found = self.path(digest).stat().st_size
        except FileNotFoundError:
            return False
        return size is None or found == size

    def read(self, digest: str, limit: int) -> bytes:
        """Read a small blob. Raises NotFound, or Invalid if it is larger than the limit."""
        try:
            with self.path(digest).open("rb") as file:
                data = file.read(limit + 1)
        except FileNotFoundError as error:
            raise NotFound(f"blob {digest} is not in the store") from error
        if len(data) > limit:
            raise Invalid(f"blob {digest} is larger than {limit} bytes")
        return data

    def add(self, digest: str, data: bytes) -> None:
        """Store a small blob. Raises BadBlob if it does not match the digest."""
        if not self.has(digest, len(data)):
            self.add_stream((memoryview(data),), len(data), digest)

    def add_stream(self, pieces: Iterable[memoryview], size: int, digest: str = "") -> Descriptor:
        """Store a blob from a stream that cannot be resumed; parallel calls may store the same blob.

        Raises BadBlob if it does not match ``digest``.
        """
        temporary = self._ingest / f"unnamed-{secrets.token_hex(8)}"
        found = hashlib.new(digest.partition(":")[0] or "sha256")
        try:
            with temporary.open("xb", buffering=0) as file:
                room = Room(file.fileno(), self._reserve)
                back = WriteBack(file.fileno())
                for piece in pieces:
                    found.update(piece)
                    room.take(len(piece))
                    _write(file.fileno(), piece)
                    back.wrote(len(piece))
                os.fsync(file.fileno())
            name = f"{found.name}:{found.hexdigest()}"
            if digest and name != digest:
                raise BadBlob(f"blob {digest} of {size} bytes came as {name}")
            self.place(temporary, name, size)
        except OSError as error:
            raise wrap(error, f"cannot write {temporary}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return Descriptor(name, size)

    def place(self, file: Path, digest: str, size: int) -> None:
        """Rename a written and checked file to the path of its blob."""
        target = self.path(digest)
        file.replace(target)
        sync_directory(target.parent)
        with self._counting:
            self._bytes += size - self._sizes.get(digest, 0)
            self._sizes[digest] = size

    def writer(self, digest: str, size: int, registry: str = "") -> "BlobWriter":
        """Open a writer for a blob, which resumes an earlier attempt to fetch it from the same registry.

        Only one writer per digest and registry at a time.
        """
        place = hashlib.sha256(registry.encode()).hexdigest()[:_PLACE]
        partial = self._ingest / f"{digest.replace(':', '-')}.{place}"
        return BlobWriter(store=self, partial=partial, digest=digest, size=size, reserve=self._reserve)

    def digests(self) -> set[str]:
        """The digests of all blobs in the store."""
        with self._counting:
            return set(self._sizes)

    def remove(self, digest: str) -> None:
        """Remove a blob. Idempotent: no error if it is missing."""
        self.path(digest).unlink(missing_ok=True)
        with self._counting:
            self._bytes -= self._sizes.pop(digest, 0)

    def drop_partial(self, digest: str) -> None:
        """Remove the partial files of a blob. No writer may be active for it."""
        for path in self._ingest.glob(f"{digest.replace(':', '-')}*"):
            path.unlink(missing_ok=True)

    def partial(self) -> set[str]:
        """The digests of the blobs of which there is a partial file."""
        found = map(_digest_of, self._ingest.iterdir())
        return {digest for digest in found if is_digest(digest)}

    def used(self) -> tuple[Bytes, int]:
        """The bytes and inodes of all blobs; updated at each change, so that the call is cheap."""
        with self._counting:
            return Bytes(self._bytes), len(self._sizes)

    def _files(self, directory: Path) -> list[Path]:
        """The regular files in a directory of the store; other files are set aside, as reading them could block."""
        files = []
        for path in directory.iterdir():
            if is_regular(path):
                files.append(path)
                continue
            try:
                set_aside(path, self.root)
            except OSError as error:
                self.unusable += (path,)
                _log.warning(
                    "content store: cannot set aside a file that is no blob",
                    extra={"path": str(path), "error": str(error)},
                )
        return files


class BlobWriter:
    """Writes one blob. Leaving the context without ``commit`` keeps the partial file for the next attempt."""

    def __init__(self, *, store: ContentStore, partial: Path, digest: str, size: int, reserve: Reserve) -> None:
        self._store = store
        self._partial = partial
        self._digest = digest
        self._size = size
        self._hash = hashlib.new(digest.partition(":")[0])
        self.offset = 0
        self._opened = False
        """Whether ``offset`` is the size of the partial file."""
        try:
            self._fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise wrap(error, f"cannot write {partial}") from error
        self._room = Room(self._fd, reserve)
        self._back = WriteBack(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)
        if self.offset == 0 and self._opened:
            self._partial.unlink(missing_ok=True)

    def resume(self, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """Read the partial file into the digest; returns the offset to go on from. Transient: no room for the rest.

        ``is_stopped`` is asked before each piece: a large file takes a while. After that the writer is of no use.
        """
        try:
            while not is_stopped() and (piece := os.read(self._fd, _PIECE)):
                self._hash.update(piece)
                self.offset += len(piece)
            self._opened = not is_stopped()
            if self.offset > self._size:
                self.restart()
            self._room.take(self._size - self.offset)
        except OSError as error:
            raise wrap(error, f"cannot write {self._partial}") from error
        return self.offset

    def restart(self) -> None:
        """Drop the partial content and start from offset 0."""
        self._opened = True
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.new(self._digest.partition(":")[0])
        self.offset = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append data. Raises BadBlob as soon as there are more bytes than announced."""
        self.offset += len(data)
        if self.offset > self._size:
            self.restart()
            raise BadBlob(f"blob {self._digest} is longer than the {self._size} bytes announced")
        view = memoryview(data)
        self._hash.update(view)
        try:
            self._room.take(len(view))
            _write(self._fd, view)
            self._back.wrote(len(view))
        except OSError as error:
            raise wrap(error, f"cannot write {self._partial}") from error

    def commit(self) -> None:
        """Check size and digest, sync the blob and move it into the store.

        Raises BadBlob if it does not match; the written data is dropped then.
        """
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if self.offset != self._size or found != self._digest:
            size = self.offset
            self.restart()
            raise BadBlob(f"blob {self._digest} of {self._size} bytes came as {found} of {size} bytes")
        try:
            os.fsync(self._fd)
            self._store.place(self._partial, self._digest, self._size)
        except OSError as error:
            raise wrap(error, f"cannot keep blob {self._digest}") from error


def _digest_of(partial: Path) -> str:
    return partial.name.partition(".")[0].replace("-", ":", 1)


def _drop(partial: Path) -> None:
    try:
        partial.unlink(missing_ok=True)
    except OSError as error:
        # The file only takes space.
        _log.warning("cannot remove a partial blob", extra={"path": str(partial), "error": str(error)})


def _write(fd: int, view: memoryview) -> None:
    while view:
        view = view[os.write(fd, view) :]
