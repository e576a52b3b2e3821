"""The manifest directory of an agent, as commands change it: one object at a time, each change atomic.

Files are only replaced by rename, so that the agent reads the old or the new version. Nothing outside the directory is
written: a symbolic link in it is never followed for writing. Commands that run at the same time wait for each other.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest import Manifest, ManifestObject, ObjectKey, parse
from pykubelet.kubelet.desired.manifest.edit import (
    ObjectPlace,
    places,
    readable_places,
    with_added,
    with_object,
    without_object,
)
from pykubelet.kubelet.desired.manifest_file import read_manifest
from pykubelet.kubelet.desired.sources.plan.effective_manifests import accept

_MODE = 0o600
"""Permission bits of new files: Secrets may be in them."""
_LOCK_SECONDS: Seconds = 30.0
_LOCK_POLL: Seconds = 0.05
_MAX_STEM = 200
"""Characters of an object's name that its file has; a longer name may be valid, and is cut."""
_SUFFIXES = (".yaml", ".yml", ".json")
"""Endings by which a path that does not exist is one of a single file, not of a directory."""
_PLAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Change(StrEnum):
    """Result of a change of an object, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class FoundObject(Struct, frozen=True):
    """An object in a file of the directory."""

    path: Path
    data: bytes
    place: ObjectPlace

    @property
    def origin(self) -> str:
        """The file's name as the agent and its messages have it."""
        return printable(str(self.path))


class AppliedObject(Struct, frozen=True):
    """An object as it is now in the directory."""

    change: Change
    origin: str
    """The file that holds it, as the agent names it."""


class ManifestDirectory:
    """The directory (or single file) in which the agent looks for manifests."""

    def __init__(self, *, path: Path, node_name: str, kept: dict[str, str]) -> None:
        """``kept`` has the objects whose file has become unreadable, and that file, by ``KIND NAMESPACE/NAME``."""
        self.path = path
        self.node_name = node_name
        self._kept = kept

    @classmethod
    def of_agent(cls, path: str, *, node_name: str, kept: dict[str, str]) -> "ManifestDirectory":
        """Return the directory that an agent reads. Permanent: it reads none, or the path is relative."""
        if not path:
            raise Permanent(
                "the agent reads no manifest directory; start it with --manifests DIRECTORY, "
                "or change its pods where they come from: the API server, or the URL of its manifest"
            )
        if not Path(path).is_absolute():
            raise Permanent(f"the agent's manifest directory {path} is relative; start the agent with a full path")
        return cls(path=Path(path), node_name=node_name, kept=kept)

    @property
    def home(self) -> Path:
        """The directory whose files are changed: the path, or that of the single file, which need not exist yet."""
        return self.path.parent if self._is_single() else self.path

    def _is_single(self) -> bool:
        return self.path.is_file() or (self.path.suffix in _SUFFIXES and not self.path.is_dir())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make other commands wait with their changes until the end of the block; creates a missing directory.

        Transient: another process has kept it locked for 30 s.
        """
        directory = self.home
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _failure(directory, "cannot be used", error) from error
        try:
            _lock(fd, directory)
            yield
        finally:
            os.close(fd)

    def find(self, key: ObjectKey) -> FoundObject | None:
        """Return the object in the first file that has it, as the agent does; None: no file has it.

        Conflict: it is in a file that cannot be read to its end, or was in one that is broken now.
        """
        name = key.name.encode()
        broken = self._kept.get(str(key), "")
        for path in self._files():
            try:
                data = read_manifest(str(path))
            except (NotFound, Invalid, Transient):
                continue
            # Only text with escapes can hold a name without showing it.
            if name not in data and b"\\" not in data:
                continue
            origin = printable(str(path))
            try:
                found = places(data, origin)
            except Invalid:
                if broken == origin or any(item.key == key for item in parse(data, origin).objects):
                    raise _broken(origin, key) from None
                if any(place.key == key for place in readable_places(data, origin)):
                    broken = broken or origin  # the agent uses the object of another file, if that has it
                continue
            for place in found:
                if place.key == key:
                    return FoundObject(path, data, place)
        if broken:
            raise _broken(broken, key)
        return None

    def apply(self, item: ManifestObject, text: str, *, write: bool = True) -> AppliedObject:
        """Create the object, or replace it where it is. ``text`` is its document; without ``write`` nothing changes.

        Conflict: its file cannot be edited, or the object is immutable. Permanent: the directory cannot be written.
        """
        found = self.find(item.key)
        if found is None:
            path = self._new_file(item.key)
            origin = printable(str(path))
            old = read_manifest(str(path)) if path.exists() else b""
            data = with_added(old, text, origin)
            self._check(item, parse(old, origin), parse(data, origin))
            self._write(path, data, write=write)
            return AppliedObject(Change.CREATED, origin)
        before = parse(found.data, found.origin)
        if any(old.key == item.key and old.digest == item.digest for old in before.objects):
            return AppliedObject(Change.UNCHANGED, found.origin)
        data = with_object(found.data, found.place, text, found.origin)
        after = parse(data, found.origin)
        self._check(item, before, after)
        frozen = [p for p in accept(accept(None, before, ""), after, "").manifest.problems if p.field == "immutable"]
        if any(problem.object == str(item.key) for problem in frozen):
            raise Conflict(f"{item.key} is immutable: delete it first, then apply the new version")
        self._write(found.path, data, write=write)
        return AppliedObject(Change.CONFIGURED, found.origin)

    def remove(self, key: ObjectKey) -> FoundObject:
        """Remove the object: its document, or its file if that holds nothing else. Returns what was removed.

        NotFound: no file has it. Conflict, Permanent: as `apply`.
        """
        found = self.find(key)
        if found is None:
            raise NotFound(f"{key} is in no file of {self.path}")
        data = without_object(found.data, found.place, found.origin)
        if data is not None:
            _check_others(key, parse(found.data, found.origin), parse(data, found.origin))
            self._write(found.path, data)
            return found
        try:
            found.path.unlink()
        except OSError as error:
            raise _failure(found.path, "cannot be removed", error) from error
        return found

    def keys(self, kind: str) -> list[ObjectKey]:
        """Return the objects of a kind in all readable files."""
        keys: dict[ObjectKey, None] = {}
        for path in self._files():
            with contextlib.suppress(NotFound, Invalid, Transient):
                keys |= {place.key: None for place in places(read_manifest(str(path)), str(path))}
        return [key for key in keys if key.kind == kind]

    def _files(self) -> list[Path]:
        try:
            if not self.path.is_dir():
                return [self.path] if self.path.exists() else []
            return sorted(each for each in self.path.iterdir() if is_plain_name(each.name))
        except OSError as error:
            raise _failure(self.path, "cannot be read", error) from error

    def _new_file(self, key: ObjectKey) -> Path:
        """Return a free path for a new object; the single file if the agent reads only that."""
        if self._is_single():
            return self.path
        if not _PLAIN.fullmatch(key.name) or not _PLAIN.fullmatch(key.namespace):
            raise Conflict(
                f"{printable(str(key))}: its metadata.name or metadata.namespace cannot be part of a file name"
            )
        stem = key.name if key.namespace == "default" else f"{key.namespace}.{key.name}"
        if len(stem) > _MAX_STEM:
            stem = f"{stem[:_MAX_STEM]}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}"
        stem = stem if key.kind == "Pod" else f"{stem}.{key.kind.lower()}"
        candidates = (self.path / f"{stem}{suffix}.yaml" for suffix in ("", *(f".{n}" for n in range(2, 100))))
        for path in candidates:
            if not os.path.lexists(path):
                return path
        raise Conflict(f"{self.path} has no free name for {key}: remove files named {stem}.*.yaml")

    @staticmethod
    def _check(item: ManifestObject, before: Manifest, after: Manifest) -> None:
        """Refuse a text in which the agent would not find this object as it is wanted, and the others as before."""
        if not any(new.key == item.key and new.digest == item.digest for new in after.objects):
            problem = next((str(each) for each in after.problems), "it would not be read as given")
            raise Conflict(f"{after.origin} cannot take {item.key}: {problem}; edit it by hand")
        _check_others(item.key, before, after)

    def _write(self, path: Path, data: bytes, *, write: bool = True) -> None:
        """Create or replace a file; a replaced one keeps its mode and owner. Conflict: the path is a link."""
        try:
            before = path.lstat() if os.path.lexists(path) else None
            if before is not None and stat.S_ISLNK(before.st_mode):  # its mode is 0777; its target must not be written
                raise Conflict(f"{path} is a symbolic link to {path.readlink()}; change that file itself")
            if not write:
                return
            if before is None:
                write_atomic(path, data, _MODE, durable=True)
                return
            own = (before.st_uid, before.st_gid) == (os.geteuid(), os.getegid())
            owner = None if own else (before.st_uid, before.st_gid)
            write_atomic(path, data, before.st_mode & 0o777, durable=True, owner=owner)
        except OSError as error:
            raise _failure(path, "cannot be written", error) from error


def _check_others(key: ObjectKey, before: Manifest, after: Manifest) -> None:
    """Conflict: a change of the object would change another one of its file."""
    digests = {new.key: new.digest for new in after.objects}
    for old in before.objects:
        if old.key != key and digests.get(old.key) != old.digest:
            raise Conflict(f"{after.origin} cannot be edited for {key}: {old.key} would change; edit it by hand")


def _broken(file: str, key: ObjectKey) -> Conflict:
    return Conflict(f"{file}, which defined {key}, is broken: repair or remove it first; see `pykubelet check {file}`")


def _lock(fd: int, directory: Path) -> None:
    """Lock a directory. Transient: it stays locked; every process that may read the directory can lock it."""
    for _ in range(max(1, round(_LOCK_SECONDS / _LOCK_POLL))):
        if _is_locked(fd):
            return
        time.sleep(_LOCK_POLL)
    raise Transient(
        f"{directory} has been locked by another process for {_LOCK_SECONDS:g} s; "
        f"`fuser -v {directory}` names the processes that use it"
    )


def _is_locked(fd: int) -> bool:
    """Try to lock a directory; return whether it is locked by this process now."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _failure(path: Path, what: str, error: OSError) -> Permanent:
    return Permanent(f"{path} {what}: {error.strerror}; are you root, and is its file system writable?")
