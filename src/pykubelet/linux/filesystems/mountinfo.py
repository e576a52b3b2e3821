"""The mount table: /proc/self/mountinfo, parsed (proc_pid_mountinfo(5))."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from pykubelet.linux.procfs import mount_id

MOUNTINFO = "/proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")
_ESCAPED = str.maketrans({letter: f"\\{ord(letter):03o}" for letter in " \t\n\\"})


class Mount(Struct, frozen=True):
    """A mount, as in a line of mountinfo."""

    id: int
    parent_id: int
    device: str
    """The device as major:minor."""
    root: str
    """The path inside the file system that is mounted; not `/` for a bind mount of a directory."""
    path: str
    options: frozenset[str]
    tags: tuple[str, ...]
    """Propagation: `shared:N`, `master:N`, `unbindable`; none for private."""
    fs_type: str
    source: str
    super_options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        return "ro" in self.options


def parse(text: str) -> list[Mount]:
    """Parse a mountinfo file: its mounts in mount order."""
    # Not splitlines(): a path may contain other characters that Python takes for the end of a line.
    return [_parse_line(line) for line in text.split("\n") if line]


def mounts() -> list[Mount]:
    """The mounts of the mount namespace of this process, in mount order."""
    # File names need not be UTF-8.
    return parse(Path(MOUNTINFO).read_bytes().decode(errors="surrogateescape"))


def at_or_below(all_mounts: Iterable[Mount], path: str) -> list[Mount]:
    """The mounts at `path` or below it, newest first: an order in which they can be unmounted."""
    prefix = path.rstrip("/") + "/"
    return [mount for mount in all_mounts if mount.path == path or mount.path.startswith(prefix)][::-1]


def mounts_below(path: str) -> list[Mount]:
    """The present mounts at `path` or below it, newest first. Lines of other paths are not parsed."""
    needle = path.rstrip("/").translate(_ESCAPED).encode(errors="surrogateescape")
    lines = [line for line in Path(MOUNTINFO).read_bytes().split(b"\n") if needle in line]
    return at_or_below(parse(b"\n".join(lines).decode(errors="surrogateescape")), path)


def mount_of(all_mounts: Iterable[Mount], path: str) -> Mount | None:
    """The mount of `path` (absolute, without links): the newest one with the longest matching mount point.

    None only where the root itself is not a mount (in a chroot).
    """
    fitting = [mount for mount in all_mounts if f"{path}/".startswith(f"{mount.path.rstrip('/')}/")]
    return max(reversed(fitting), key=lambda mount: len(mount.path), default=None)


def mounts_of_directory(all_mounts: Sequence[Mount], path: str) -> list[Mount]:
    """The mounts that show the same directory as `path` (absolute, without links) does, at their mount points."""
    here = mount_of(all_mounts, path)
    if here is None:
        return []
    inside = f"{here.root.rstrip('/')}/{path[len(here.path) :].lstrip('/')}".rstrip("/") or "/"
    return [mount for mount in all_mounts if (mount.device, mount.root) == (here.device, inside)]


def is_mount_point(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a mount point, bind mounts included; False if the path does not exist.

    Compares the mount ids of the path and of its parent directory, so it need not read the whole table.
    """
    target = Path(path).absolute()
    if target == target.parent:
        return True
    here = _mount_id(target, os.O_NOFOLLOW)
    return here is not None and here != _mount_id(target.parent, 0)


def _mount_id(path: Path, flags: int) -> int | None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return mount_id(fd)
    finally:
        os.close(fd)


def _parse_line(line: str) -> Mount:
    left, _, right = line.partition(" - ")
    id_, parent, device, root, path, options, *tags = left.split(" ")
    fs_type, source, super_options = right.split(" ")[:3]
    return Mount(
        id=int(id_),
        parent_id=int(parent),
        device=device,
        root=_unescape(root),
        path=_unescape(path),
        options=frozenset(options.split(",")),
        tags=tuple(tag for tag in tags if tag),
        fs_type=fs_type,
        source=_unescape(source),
        super_options=tuple(super_options.split(",")),
    )


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # The kernel writes space, tab, newline and backslash as octal bytes.
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
