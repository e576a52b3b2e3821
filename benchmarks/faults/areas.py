"""Small file systems for the disk, /run and /var/log of a node, which faults fill and break. Blocking.

Most kernels have no device mapper target for errors. So the disk is an ext4 file system on a loop device, for which the
kernel can be made to report an error (``trigger_fs_error``) or a shutdown (``FS_IOC_SHUTDOWN``) until the next mount.
Transient errors are produced by mounting over a directory: a read-only bind mount of itself, or a FUSE file system that
fails every request with EIO. Files that are already open keep working, as on a disk with bad sectors.
"""

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.base.units import MIB, Bytes
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import mounts as mounted
from pykubelet.linux.filesystems.mountinfo import mounts_below
from pykubelet.testing.agent import wait_for
from pykubelet.testing.fuse import Behaviour, FuseMount

_DISK_BYTES = 4 << 30
_DISK_INODES = 1_500_000
_SMALL_BYTES = Bytes(64 * MIB)
_RUN_INODES = 8192
_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, which is FS_IOC_SHUTDOWN of other file systems."""
_NO_LOG_FLUSH = 2
_FILLER = ".filler"
_RELEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Area:
    """A separate file system whose directories are bind-mounted to the paths that daemons use."""

    point: Path
    parts: Mapping[str, Path]
    """Mount points of the bind mounts, by directory of the file system."""
    image: Path | None = None
    """File with an ext4 file system; None: a tmpfs, which forgets everything when it is unmounted."""

    @property
    def targets(self) -> tuple[Path, ...]:
        return tuple(self.parts.values())

    def mount(self) -> None:
        """Create the file system unless it exists, and mount it."""
        self.point.mkdir(parents=True, exist_ok=True)
        if self.image is None:
            options = {"nr_inodes": str(_RUN_INODES)}
            mounts.tmpfs(str(self.point), size=_SMALL_BYTES, mode=0o711, options=options)
        else:
            self._mount_image(self.image)
        # Later mounts in it must not propagate to its other mount points.
        mounts.set_propagation(str(self.point), mounts.MountFlag.PRIVATE)
        for name, target in self.parts.items():
            (self.point / name).mkdir(mode=0o711, exist_ok=True)
            target.mkdir(parents=True, exist_ok=True)
            mounts.bind(str(self.point / name), str(target), recursive=False)
            mounts.set_propagation(str(target), mounts.MountFlag.PRIVATE)

    def unmount(self) -> None:
        """Unmount it and everything mounted in it, even if it is in use. AssertionError: it stays in use."""
        for place in (*self.targets, self.point):
            for below in mounts_below(str(place)):
                mounts.detach(below.path)
        if self.image is not None:
            # A process on its way out may hold it for a moment; mounted again by then, it would be as broken as before.
            wait_for(
                lambda: not self._is_attached(),
                _RELEASE_SECONDS,
                lambda: f"{self.image} stays in use, mounted for {', '.join(self._users()) or 'no process'}",
            )

    def _users(self) -> list[str]:
        """Return the processes in whose mount namespaces it is still mounted: PID and command line."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f" {self.point} " in (process / "mountinfo").read_text(errors="replace"):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append(f"{process.name} ({command[:100].strip()})")
        return found

    def _is_attached(self) -> bool:
        backing = (path.read_text().strip() for path in _loop_notes())
        try:
            return str(self.image) in backing
        except OSError as error:
            # A device was detached between the listing and the read: before the open, or while the file was open.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
        return True

    def _mount_image(self, image: Path) -> None:
        if not image.exists():
            with image.open("wb") as file:
                file.truncate(_DISK_BYTES)
            options = ("-q", "-F", "-m", "0", "-N", str(_DISK_INODES), "-E", "nodiscard,lazy_itable_init=1")
            _run("mkfs.ext4", *options, str(image))
        _run("mount", "-o", "loop,noinit_itable,errors=remount-ro", str(image), str(self.point))
        self.point.chmod(0o711)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Fill the file system until no space is left."""
        filler = self.point / _FILLER
        descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
        try:
            self._fill(descriptor)
            yield
        finally:
            os.close(descriptor)
            filler.unlink()

    def _fill(self, descriptor: int) -> None:
        end, size = 0, 1 << 30
        while size >= 4096:
            try:
                os.posix_fallocate(descriptor, end, size)
                end += size
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2

    @contextlib.contextmanager
    def without_inodes(self) -> Iterator[None]:
        """Create files until no inode is left."""
        directory = self.point / _FILLER
        directory.mkdir()
        try:
            with contextlib.suppress(OSError):
                for number in range(_DISK_INODES):
                    (directory / str(number)).touch()
            yield
        finally:
            for path in directory.iterdir():
                path.unlink()
            directory.rmdir()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Make paths in it read-only."""
        with contextlib.ExitStack() as stack:
            for target in self.targets:
                mounts.bind(str(target), str(target), recursive=True)
                stack.callback(mounts.detach, str(target))
                mounts.make_read_only(str(target))
            yield

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Make every access to paths in it fail with EIO."""
        with contextlib.ExitStack() as stack:
            for target in self.targets:
                broken = FuseMount(target, self.point.with_name(f".{target.parent.name}-{target.name}.behaviour"))
                stack.callback(broken.stop)
                broken.start(Behaviour.FAIL)
            yield

    def sync(self) -> None:
        """Write all data to the disk."""
        _run("sync", "-f", str(self.point))

    def abort(self) -> None:
        """Make the kernel report an error: the file system is read-only until it is mounted again.

        All data is synced before; without that a file system guarantees nothing about unsynced data.
        """
        self.sync()
        device = _device(self.point)
        Path("/sys/fs/ext4", device, "trigger_fs_error").write_text("1")

    def shut_down(self) -> None:
        """Shut the file system down, like an unplugged disk: EIO until it is mounted again. Data is synced before."""
        self.sync()
        descriptor = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)


def _loop_notes() -> Iterable[Path]:
    """Files of the kernel with the paths of the files behind loop devices."""
    return Path("/sys/block").glob("loop*/loop/backing_file")


def _device(point: Path) -> str:
    for each in mounted():
        if each.path == str(point):
            return Path(each.source).name
    raise NotFound(f"nothing is mounted on {point}")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
