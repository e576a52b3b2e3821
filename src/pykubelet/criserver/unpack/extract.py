# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH208, PTH211
# A Path object for each entry would cost more than the calls do.
"""Writes the entries of a layer into the current root directory. Runs in the chrooted worker only.

The rules are those of the OCI image specification, "Applying Changesets", for overlayfs: a whiteout becomes a character
device 0/0, an opaque directory gets ``trusted.overlay.opaque``. Symlinks in paths are followed, and stay inside, as the
layer's directory is the root. With ``merged`` the root shows the layers below too, and whiteouts really remove files.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct, field

from pykubelet.criserver.unpack.account import BLOCK, Account, blocks_of
from pykubelet.criserver.unpack.files import DEFAULT_ACL, allowed_xattrs, device_of, is_whiteout, remove_any, set_xattr
from pykubelet.criserver.unpack.limits import BadLayer
from pykubelet.criserver.unpack.tarstream import Entry, EntryKind, TarReader
from pykubelet.linux.filesystems.writeback import WriteBack

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_OPAQUE_XATTR = "trusted.overlay.opaque"
_MAX_COMPONENT = 255
_MAX_DEPTH = 512
"""Limit of the depth of directories; deeper trees exist only to break programs that walk them."""
_MAX_IMPLICIT = 10_000
_MAX_IMPLICIT_LENGTH = 2_000_000
"""Limit of the characters of all implicit directories' paths."""
_OF_THE_LAYER = (errno.ELOOP, errno.ENAMETOOLONG, errno.EMLINK)
"""Errors caused by links and names of the layer itself."""
_UNREACHABLE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_MAX_CACHED = 10_000
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnpackedLayer(Struct):
    """The result of unpacking a layer."""

    bytes: int = 0
    inodes: int = 0
    has_root: bool = False
    """Whether the layer has an entry for ``/`` itself."""
    implicit: list[str] = field(default_factory=list)
    """Parent directories of files for which the layer has no entry; if there are too many, only ``/``."""
    missing_links: list[str] = field(default_factory=list)
    """The first target of a hard link that is not in this layer, so it must be in one below."""


class Extractor:
    """Writes entries below ``/``, the root of the process, which is the layer's directory."""

    def __init__(self, account: Account, *, merged: bool = False) -> None:
        self.written = UnpackedLayer()
        self._account = account
        self._merged = merged
        self._late: dict[int, tuple[str, int, bytes]] = {}
        """Attributes of directories that are set at the end: the modification time, which new entries would change, and
        the default ACL, which new entries would inherit; by inode, as links give a directory several paths."""
        self._own: set[str] = set()
        """With ``merged``: paths of this layer itself without links, to which its whiteouts do not apply."""
        self._copied: set[str] = set()
        """With ``merged``: paths known to be in this layer, so that writing does not copy them up from below."""
        self._implicit: set[str] = set()
        self._implicit_length = 0
        self._directories: dict[str, str] = {}
        """Checked directory paths by the directory part of entries' names."""

    def extract(self, reader: TarReader) -> UnpackedLayer:
        """Write all entries. Raises BadLayer, or OSError from the file system (disk full, for example)."""
        for entry in reader:
            path = self._inside(entry.name)
            name = path.rpartition("/")[2]
            try:
                if name.startswith(_WHITEOUT):
                    self._whiteout(path, name)
                else:
                    self._write(entry, path, reader)
            except OSError as error:
                if error.errno in _OF_THE_LAYER:
                    raise BadLayer(f"{path!r}: {error.strerror}") from error
                raise
        self._finish_directories()
        self.written.bytes, self.written.inodes = self._account.bytes, self._account.inodes
        self.written.implicit = sorted(self._implicit) if self._implicit_length <= _MAX_IMPLICIT_LENGTH else ["/"]
        return self.written

    def _finish_directories(self) -> None:
        """Set the late attributes of directories, except those that the layer has replaced or made unreachable."""
        for inode, (directory, mtime, acl) in self._late.items():
            try:
                if os.lstat(directory).st_ino != inode:
                    continue
                if acl:
                    set_xattr(directory, DEFAULT_ACL, acl)
                os.utime(directory, ns=(mtime, mtime), follow_symlinks=False)
            except OSError as error:
                if error.errno not in _UNREACHABLE:
                    raise

    def _inside(self, name: str) -> str:
        """Check a name like the function ``_inside``, with a cache: successive entries mostly share a directory."""
        front, _, last = name.rpartition("/")
        known = self._directories.get(front)
        if known is None or last in ("", ".", "..") or len(last) > _MAX_COMPONENT // 4:
            path = _inside(name)
            if len(self._directories) < _MAX_CACHED and path.endswith(f"/{last}") and last:
                self._directories[front] = path[: -len(last)]
            return path
        return known + last

    def _write(self, entry: Entry, path: str, reader: TarReader) -> None:
        entry.xattrs = allowed_xattrs(entry.xattrs) if entry.xattrs else entry.xattrs
        if path == "/":
            if entry.kind is not EntryKind.DIRECTORY:
                raise BadLayer(f"the root of the layer is a {entry.kind.name.lower()}")
            self.written.has_root = True
            self._account.xattrs(entry.xattrs)
        elif entry.kind is EntryKind.DIRECTORY:
            self._charge(entry, path)
            self._directory(path)
        else:
            self._charge(entry, path)
            self._retrying(path, lambda: self._make(entry, path, reader))
            if entry.kind is EntryKind.HARDLINK:
                return  # its target has its metadata already
        if self._merged:
            self._note_own(path)
        self._implicit.discard(path)
        if entry.kind is not EntryKind.FILE:
            self._describe(entry, path)

    def _charge(self, entry: Entry, path: str) -> None:
        """Charge everything that the entry takes, except the content of hard links to files of the layers below."""
        name, account = path.rpartition("/")[2], self._account
        if self._merged:
            self._charge_parents(path)
        if entry.kind is EntryKind.HARDLINK:
            account.name(name)
            return
        account.inode(name, blocks=blocks_of(entry.kind, path, merged=self._merged))
        account.xattrs(entry.xattrs)
        if entry.kind is EntryKind.SYMLINK:
            account.link(entry.link)
        elif entry.segments is not None:
            account.segments(entry.segments)
        elif entry.kind is EntryKind.FILE:
            account.data(entry.size)

    def _charge_parents(self, path: str) -> None:
        """Charge the copies of the parent directories: overlayfs copies them up from the layers below."""
        parent = _real(path.rpartition("/")[0] or "/")
        while len(parent) > 1 and parent not in self._copied:
            self._copied.add(parent)
            self._account.inode(parent.rpartition("/")[2], blocks=2)
            parent = parent.rpartition("/")[0]

    def _charge_copy(self, path: str, facts: os.stat_result) -> None:
        """Charge the copy of a hard link's target: overlayfs copies a file of the layers below up completely, once.

        A file of this layer itself, which was charged when it was written, is not copied.
        """
        if not self._merged:
            return
        real = _without_links(path)
        if real not in self._copied and real not in self._own:
            self._charge_parents(real)
            self._copied.add(real)
            self._account.inode(real.rpartition("/")[2], blocks=1 + -(-facts.st_blocks * 512 // BLOCK))

    def _make(self, entry: Entry, path: str, reader: TarReader) -> None:
        match entry.kind:
            case EntryKind.FILE:
                self._file(entry, path, reader)
            case EntryKind.HARDLINK:
                self._hardlink(entry, path)
            case EntryKind.SYMLINK:
                if not entry.link:
                    raise BadLayer(f"{path!r}: a symbolic link to nowhere")
                os.symlink(entry.link, path)
            case EntryKind.CHAR | EntryKind.BLOCK:
                kind = stat.S_IFCHR if entry.kind is EntryKind.CHAR else stat.S_IFBLK
                os.mknod(path, kind | 0o600, os.makedev(*device_of(entry)))
            case _:
                os.mkfifo(path, 0o600)

    def _retrying(self, path: str, make: Callable[[], None]) -> None:
        """Create the file; if the path exists or its directory is missing, resolve that and try again."""
        for _ in range(3):
            try:
                make()
                return
            except FileExistsError:
                remove_any(path, self._note_removal)
            except (FileNotFoundError, NotADirectoryError):
                self._parents(path)
        raise BadLayer(f"{path!r} cannot be created: a component of its path leads nowhere")

    def _file(self, entry: Entry, path: str, reader: TarReader) -> None:
        mode = entry.mode
        fd = os.open(path, _NEW_FILE, mode & 0o777)  # the umask is 0
        try:
            if entry.segments is None:
                back = WriteBack(fd)
                for piece in reader.data():
                    self._account.writing(size := len(piece))
                    while piece:
                        piece = piece[os.write(fd, piece) :]
                    back.wrote(size)
            else:
                self._sparse(fd, entry, reader)
            if entry.uid or entry.gid:
                os.fchown(fd, entry.uid, entry.gid)
            if mode & 0o7000:
                os.fchmod(fd, mode)  # after chown, which clears the set-id bits
            for key, value in entry.xattrs.items():
                set_xattr(fd, key, value)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)

    def _sparse(self, fd: int, entry: Entry, reader: TarReader) -> None:
        """Write the segments of a sparse file; the kernel leaves holes between them."""
        pieces = reader.data()
        piece = memoryview(b"")
        for offset, length in entry.segments or ():
            os.lseek(fd, offset, os.SEEK_SET)
            while length:
                piece = piece or next(pieces)
                self._account.writing(min(len(piece), length))
                written = os.write(fd, piece[:length])
                piece, length = piece[written:], length - written
        os.ftruncate(fd, entry.size)

    def _hardlink(self, entry: Entry, path: str) -> None:
        target = _inside(entry.link)
        try:
            facts = os.lstat(target)
        except (FileNotFoundError, NotADirectoryError):
            if not self.written.missing_links:
                self.written.missing_links.append(target)
            if self._merged:
                raise BadLayer(f"{path!r} is a hard link to {target!r}, which does not exist") from None
            return
        if stat.S_ISDIR(facts.st_mode) or is_whiteout(facts):
            raise BadLayer(f"{path!r} is a hard link to {target!r}, which is no file")
        if path != target:
            self._charge_copy(target, facts)
            os.link(target, path, follow_symlinks=False)

    def _directory(self, path: str) -> None:
        try:
            self._retrying(path, lambda: self._mkdir(path))
        except IsADirectoryError:
            return

    def _mkdir(self, path: str) -> None:
        """Create a directory. An existing one is kept, and IsADirectoryError is raised."""
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            facts = os.lstat(path)
            if stat.S_ISDIR(facts.st_mode):
                raise IsADirectoryError(path) from None
            if is_whiteout(facts):
                # The layer removes and re-creates the directory: entries of the lower one must not be visible.
                os.unlink(path)
                os.mkdir(path, 0o755)
                os.setxattr(path, _OPAQUE_XATTR, b"y")
                return
            raise

    def _describe(self, entry: Entry, path: str) -> None:
        """Set owner, mode, attributes and times of an entry that is not a regular file."""
        os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
        if entry.kind is not EntryKind.SYMLINK:
            os.chmod(path, entry.mode)  # it was just created or checked, and is not a link
        for key, value in entry.xattrs.items():
            if key != DEFAULT_ACL:
                set_xattr(path, key, value)
        if entry.kind is EntryKind.DIRECTORY:
            self._late[os.lstat(path).st_ino] = path, entry.mtime_ns, entry.xattrs.get(DEFAULT_ACL, b"")
        else:
            os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)

    def _parents(self, path: str) -> None:
        """Create the missing parent directories of a path: the tool that built the layer must have had them."""
        if self._merged:
            self._charge_parents(path)
        missing = []
        parent = _real(path.rpartition("/")[0])
        while len(parent) > 1 and not os.path.isdir(parent):
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        for directory in reversed(missing):
            if not self._merged:
                self._account.inode(directory.rpartition("/")[2], blocks=1)
            try:
                self._mkdir(directory)
            except (FileExistsError, NotADirectoryError) as error:
                raise BadLayer(f"{path!r}: {directory!r} is not a directory") from error
            self._note_implicit(directory)

    def _note_implicit(self, directory: str) -> None:
        """Record an implicit directory, up to a limit, as all of them are reported to the server."""
        if self._implicit_length > _MAX_IMPLICIT_LENGTH:
            return
        self._implicit.add(directory)
        self._implicit_length += len(directory)
        if len(self._implicit) > _MAX_IMPLICIT:
            self._implicit_length = _MAX_IMPLICIT_LENGTH + 1

    def _whiteout(self, path: str, name: str) -> None:
        parent = path.rpartition("/")[0] or "/"
        if name == _OPAQUE:
            self._retrying(path, lambda: self._opaque(_real(parent)))
            return
        if name.startswith(_WHITEOUT * 2):
            return  # internal files of aufs
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise BadLayer(f"{path!r} is a whiteout of {hidden!r}")
        victim = f"{parent.rstrip('/')}/{hidden}"
        if self._merged:
            if (lower := _without_links(victim)) not in self._own:
                self._remove_lower(lower)
            return
        self._account.inode(hidden)
        self._retrying(path, lambda: self._hide(victim))

    def _opaque(self, directory: str) -> None:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            raise FileNotFoundError(directory)
        if not self._merged:
            os.setxattr(directory, _OPAQUE_XATTR, b"y", follow_symlinks=False)
            return
        for name in os.listdir(directory):
            child = f"{directory.rstrip('/')}/{name}"
            if child not in self._own:
                self._remove_lower(child)

    def _remove_lower(self, path: str) -> None:
        """Remove a path with ``merged``: overlayfs leaves a whiteout for each file, and copies its directory up."""
        remove_any(path, self._note_removal)

    def _note_removal(self, path: str) -> None:
        if self._late:
            with suppress(OSError):  # of the call that follows, too, if it matters
                self._late.pop(os.lstat(path).st_ino, None)  # it may be reused
        if self._merged:
            self._charge_parents(path)
            self._account.inode(path.rpartition("/")[2])

    def _hide(self, victim: str) -> None:
        try:
            os.mknod(victim, stat.S_IFCHR, 0)
        except FileExistsError:
            # A whiteout applies to the layers below only; an entry of this layer itself is kept.
            if stat.S_ISDIR(os.lstat(victim).st_mode):
                os.setxattr(victim, _OPAQUE_XATTR, b"y", follow_symlinks=False)

    def _note_own(self, path: str) -> None:
        path = _without_links(path)
        while path and path not in self._own:
            self._own.add(path)
            path = path.rpartition("/")[0]


def _inside(name: str) -> str:
    """The absolute path in the layer for an entry's name. Raises BadLayer for invalid names."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if len(parts) > _MAX_DEPTH:
        raise BadLayer(f"a name of {len(parts)} directories: {name[:80]!r}…")
    for part in parts:
        if part == "..":
            raise BadLayer(f"{name!r} leads out of the layer")
        if len(part) > _MAX_COMPONENT // 4 and len(os.fsencode(part)) > _MAX_COMPONENT:
            raise BadLayer(f"a name longer than {_MAX_COMPONENT} bytes: {part[:80]!r}…")
    return "/" + "/".join(parts)


def _real(path: str) -> str:
    """The path without links. BadLayer: it is too deep; names are short enough, but links make them longer."""
    try:
        found = os.path.realpath(path)
    except RecursionError as error:
        raise BadLayer(f"{path!r}: too many links in its path") from error
    if found.count("/") > _MAX_DEPTH:
        raise BadLayer(f"{path[:80]!r}… is deeper than {_MAX_DEPTH} directories")
    return found


def _without_links(path: str) -> str:
    """The path whose directories are no links; its last name may be one."""
    front, _, name = path.rpartition("/")
    return f"{_real(front or '/').rstrip('/')}/{name}"
