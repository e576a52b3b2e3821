"""Records of the objects of a ``run-once`` in the manifest directory: they are removed if the command is killed.

The record is written before the first object, and its writer keeps it locked: the kernel releases the lock when the
process ends in any way. A record that can be locked therefore belongs to a command that cannot clean up any more.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.decoding import decode_json
from pykubelet.kubelet.desired.changes import ManifestDirectory
from pykubelet.kubelet.desired.manifest import ManifestObject, ObjectKey, parse
from pykubelet.linux.errors import wrap

_PATTERN: Final = ".run-once-*.json"
_MOST_BYTES: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Object(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    name: str
    digest: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind, self.namespace, self.name)


class RunRecord:
    """The record of one command."""

    def __init__(self, directory: ManifestDirectory, objects: Sequence[ManifestObject]) -> None:
        """Record the objects that are going to be created; the directory must be locked.

        NotFound, Transient or another error of ``base.errors``: the record cannot be written.
        """
        entries = [_Object(each.key.kind, each.key.namespace, each.key.name, each.digest) for each in objects]
        self._path = _home(directory) / _PATTERN.replace("*", secrets.token_hex(6))
        try:
            self._fd = os.open(self._path, _NEW, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            os.write(self._fd, msgspec.json.encode(entries))
            os.fsync(self._fd)
        except OSError as error:
            raise wrap(error, f"cannot write {self._path}") from error

    def forget(self) -> None:
        """Remove the record: its objects are gone."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._fd)


def leftovers(path: Path) -> list[str]:
    """Return what commands that were killed have left in the manifest directory ``path``, as ``KIND NAMESPACE/NAME``.

    An empty list if it cannot be read.
    """
    found: list[str] = []
    for _, entries in _abandoned(path):
        found += [str(each.key) for each in entries]
    return found


def remove_leftovers(directory: ManifestDirectory) -> list[str]:
    """Remove what commands that were killed have left, and return it. An object that was changed since is kept.

    Errors of :meth:`ManifestDirectory.locked` and :meth:`ManifestDirectory.remove`; nothing is locked without
    leftovers.
    """
    removed: list[str] = []
    home = _home(directory)
    if not any(home.glob(_PATTERN)):
        return removed
    with directory.locked():
        for record, entries in _abandoned(home):
            # Pods first: they use the others.
            for each in sorted(entries, key=lambda entry: entry.kind != "Pod"):
                if _is_unchanged(directory, each):
                    directory.remove(each.key)
                    removed.append(str(each.key))
            record.unlink(missing_ok=True)
    return removed


def _is_unchanged(directory: ManifestDirectory, entry: _Object) -> bool:
    with suppress(PykubeletError):
        found = directory.find(entry.key)
        if found is not None:
            objects = parse(found.data, found.origin).objects
            return any(each.key == entry.key and each.digest == entry.digest for each in objects)
    return False


def _abandoned(home: Path) -> Iterator[tuple[Path, list[_Object]]]:
    """Yield the records that no process holds. One that is cut off was written before anything was created."""
    for path in sorted(home.glob(_PATTERN)):
        try:
            fd = os.open(path, _READ)
        except OSError:
            continue  # removed meanwhile, or not a record
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = os.read(fd, _MOST_BYTES)
        except OSError:
            continue  # the command runs
        finally:
            os.close(fd)
        try:
            yield path, decode_json(data, list[_Object])
        except msgspec.MsgspecError:
            yield path, []


def _home(directory: ManifestDirectory) -> Path:
    return directory.home
