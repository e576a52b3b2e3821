# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH208, PTH211
# A Path object for each entry would cost more than the calls do.
"""Writes a layer's entries into the current root directory. Runs in the chrooted worker only.

Rules of the OCI image specification, "Applying Changesets", for overlayfs: a whiteout becomes a character device
0/0, an opaque directory gets ``trusted.overlay.opaque``. A symlink on the way is followed, and ends inside, as the
layer's directory is the root. With ``merged`` the root shows the layers below as well, and whiteouts really remove.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from pykubelet.criserver.unpack.account import BLOCK, Account
from pykubelet.criserver.unpack.files import DEFAULT_ACL, allowed_xattrs, is_whiteout, remove_any, set_xattr
from pykubelet.criserver.unpack.limits import BadLayer
from pykubelet.criserver.unpack.tarstream import Entry, Kind, TarReader

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_OPAQUE_XATTR = "trusted.overlay.opaque"
_MAX_COMPONENT = 255
_MAX_DEPTH = 512
"""Of directories; deeper trees are made to break those who walk them."""
_MAX_IMPLICIT = 10_000
_MAX_IMPLICIT_LENGTH = 2_000_000
"""Characters of all their names."""
_OF_THE_LAYER = (errno.ELOOP, errno.ENAMETOOLONG, errno.EMLINK)
"""Errors that its own links and names bring about."""
_UNREACHABLE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_MAX_CACHED = 10_000
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Written:
    """What an unpacked layer holds."""

    bytes: int = 0
    inodes: int = 0
    has_root: bool = False
    """Whether the layer says anything of ``/`` itself."""
    implicit: list[str] = field(default_factory=list)
    """Directories that the layer does not name but that its files lie in; of too many only ``/``."""
    missing_links: list[str] = field(default_factory=list)
    """The first target of a hard link that is not in this layer, so it must be in one below."""


class Extractor:
    """Writes entries below ``/``, the root of the process, which is the layer's directory."""

    def __init__(self, account: Account, *, merged: bool = False) -> None:
        self.written = Written()
        self._account = account
        self._merged = merged
        self._late: dict[str, tuple[int, int, bytes]] = {}
        """Of directories, set at the end: modification time, which what is put into them changes, and default ACL,
        which what is put into them would get too; with the inode, by which the directory is known again."""
        self._own: set[str] = set()
        """With ``merged``: what this layer itself brought, which its whiteouts do not concern."""
        self._copied: set[str] = set()
        """With ``merged``: what is known to be in this layer, so that no writing copies it up from below."""
        self._implicit: set[str] = set()
        self._implicit_length = 0
        self._directories: dict[str, str] = {}
        """The checked form of a name's front."""

    def extract(self, reader: TarReader) -> Written:
        """Write everything. Raises BadLayer, or OSError from the file system (disk full, say)."""
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
        """What the layer itself replaced or made unreachable later is left out."""
        for directory, (inode, mtime, acl) in self._late.items():
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
        """As the function; most entries lie in a directory that was looked at a moment ago."""
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
            if entry.kind is not Kind.DIRECTORY:
                raise BadLayer(f"the root of the layer is a {entry.kind.name.lower()}")
            self.written.has_root = True
            self._account.xattrs(entry.xattrs)
        elif entry.kind is Kind.DIRECTORY:
            self._charge(entry, path)
            self._directory(path)
        else:
            self._charge(entry, path)
            self._retrying(path, lambda: self._make(entry, path, reader))
            if entry.kind is Kind.HARDLINK:
                return  # what it names has its metadata already
        if self._merged:
            self._note_own(path)
        self._implicit.discard(path)
        if entry.kind is not Kind.FILE:
            self._describe(entry, path)

    def _charge(self, entry: Entry, path: str) -> None:
        """All that the entry takes, but for the content of hard links to files of the layers below."""
        name, account = path.rpartition("/")[2], self._account
        if self._merged:
            self._charge_parents(path)
        if entry.kind is Kind.HARDLINK:
            account.name(name)
            return
        # A default ACL of the layers below, which new files get, takes a block.
        account.inode(name, blocks=int(self._merged) + int(entry.kind is Kind.DIRECTORY))
        account.xattrs(entry.xattrs)
        if entry.kind is Kind.SYMLINK:
            account.link(entry.link)
        elif entry.segments is not None:
            account.segments(entry.segments)
        elif entry.kind is Kind.FILE:
            account.data(entry.size)

    def _charge_parents(self, path: str) -> None:
        """Writing into a directory of the layers below copies it up, and those above it."""
        parent = _real(path.rpartition("/")[0] or "/")
        while len(parent) > 1 and parent not in self._copied:
            self._copied.add(parent)
            self._account.inode(parent.rpartition("/")[2], blocks=2)
            parent = parent.rpartition("/")[0]

    def _charge_copy(self, path: str, facts: os.stat_result) -> None:
        """A hard link to a file of the layers below copies all of it up, once."""
        if self._merged and path not in self._copied:
            self._charge_parents(path)
            self._copied.add(path)
            self._account.inode(path.rpartition("/")[2], blocks=1 + -(-facts.st_blocks * 512 // BLOCK))

    def _make(self, entry: Entry, path: str, reader: TarReader) -> None:
        match entry.kind:
            case Kind.FILE:
                self._file(entry, path, reader)
            case Kind.HARDLINK:
                self._hardlink(entry, path)
            case Kind.SYMLINK:
                if not entry.link:
                    raise BadLayer(f"{path!r}: a symbolic link to nowhere")
                os.symlink(entry.link, path)
            case Kind.CHAR | Kind.BLOCK:
                kind = stat.S_IFCHR if entry.kind is Kind.CHAR else stat.S_IFBLK
                os.mknod(path, kind | 0o600, os.makedev(*_device(entry)))
            case _:
                os.mkfifo(path, 0o600)

    def _retrying(self, path: str, make: Callable[[], None]) -> None:
        """Make it; if something is in the way, or the directory for it is missing, mend that and make it again."""
        for _ in range(3):
            try:
                make()
                return
            except FileExistsError:
                remove_any(path, self._note_removal)
            except (FileNotFoundError, NotADirectoryError):
                self._parents(path)
        raise BadLayer(f"{path!r} cannot be made: something on its way leads nowhere")

    def _file(self, entry: Entry, path: str, reader: TarReader) -> None:
        mode = entry.mode
        fd = os.open(path, _NEW_FILE, mode & 0o777)  # the umask is 0
        try:
            if entry.segments is None:
                for piece in reader.data():
                    while piece:
                        piece = piece[os.write(fd, piece) :]
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
        """Write the parts that are there; the kernel makes holes of the others."""
        pieces = reader.data()
        piece = memoryview(b"")
        for offset, length in entry.segments or ():
            os.lseek(fd, offset, os.SEEK_SET)
            while length:
                piece = piece or next(pieces)
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
        """Make a directory; one that exists stays, and says so by IsADirectoryError."""
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            facts = os.lstat(path)
            if stat.S_ISDIR(facts.st_mode):
                raise IsADirectoryError(path) from None
            if is_whiteout(facts):
                # Removed and made anew in one layer: nothing of the old one may shine through.
                os.unlink(path)
                os.mkdir(path, 0o755)
                os.setxattr(path, _OPAQUE_XATTR, b"y")
                return
            raise

    def _describe(self, entry: Entry, path: str) -> None:
        """Owner, mode, attributes and times of what is not a regular file."""
        os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
        if entry.kind is not Kind.SYMLINK:
            os.chmod(path, entry.mode)  # just made or looked at by us, and no link
        for key, value in entry.xattrs.items():
            if key != DEFAULT_ACL:
                set_xattr(path, key, value)
        if entry.kind is Kind.DIRECTORY:
            self._late[path] = os.lstat(path).st_ino, entry.mtime_ns, entry.xattrs.get(DEFAULT_ACL, b"")
        else:
            os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)

    def _parents(self, path: str) -> None:
        """Make the missing directories above a path, as the tools that made the layer must have had them."""
        missing = []
        parent = _real(path.rpartition("/")[0])
        while len(parent) > 1 and not os.path.isdir(parent):
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        for directory in reversed(missing):
            self._account.inode(directory.rpartition("/")[2], blocks=1 + int(self._merged))
            try:
                self._mkdir(directory)
            except (FileExistsError, NotADirectoryError) as error:
                raise BadLayer(f"{path!r}: {directory!r} is no directory") from error
            self._note_implicit(directory)

    def _note_implicit(self, directory: str) -> None:
        """All of them are told to the server, so there is an end to it."""
        if self._implicit_length > _MAX_IMPLICIT_LENGTH:
            return
        self._implicit.add(directory)
        self._implicit_length += len(directory)
        if len(self._implicit) > _MAX_IMPLICIT:
            self._implicit_length = _MAX_IMPLICIT_LENGTH + 1

    def _whiteout(self, path: str, name: str) -> None:
        parent = path.rpartition("/")[0] or "/"
        if name == _OPAQUE:
            self._retrying(path, lambda: self._opaque(parent))
            return
        if name.startswith(_WHITEOUT * 2):
            return  # aufs' own book-keeping
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise BadLayer(f"{path!r} is a whiteout of {hidden!r}")
        victim = f"{parent.rstrip('/')}/{hidden}"
        if self._merged:
            if victim not in self._own:
                self._remove_lower(victim)
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
        """With ``merged``: each file and directory that goes leaves a mark, and its directory is copied up for that."""
        remove_any(path, self._note_removal)

    def _note_removal(self, path: str) -> None:
        self._late.pop(path, None)  # its inode's number may be the next file's
        if self._merged:
            self._charge_parents(path)
            self._account.inode(path.rpartition("/")[2])

    def _hide(self, victim: str) -> None:
        try:
            os.mknod(victim, stat.S_IFCHR, 0)
        except FileExistsError:
            # A whiteout concerns the layers below only; what this layer brought itself stays.
            if stat.S_ISDIR(os.lstat(victim).st_mode):
                os.setxattr(victim, _OPAQUE_XATTR, b"y", follow_symlinks=False)

    def _note_own(self, path: str) -> None:
        while path and path not in self._own:
            self._own.add(path)
            path = path.rpartition("/")[0]


def _inside(name: str) -> str:
    """The absolute path in the layer that an entry's name means."""
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
    try:
        return os.path.realpath(path)
    except RecursionError as error:
        raise BadLayer(f"{path!r}: too many links on the way to it") from error


def _device(entry: Entry) -> tuple[int, int]:
    major, minor = entry.device
    if not (0 <= major < 1 << 12 and 0 <= minor < 1 << 20):
        raise BadLayer(f"{entry.name!r}: device {major}:{minor} is out of range")
    if entry.kind is Kind.CHAR and major == minor == 0:
        raise BadLayer(f"{entry.name!r} is device 0:0, a whiteout in disguise")
    return major, minor
