"""The file system calls that both drivers are made of, and the removal of a whole subtree.

A class and not functions so that the tests can put a fake cgroup file system in its place.
"""

import errno
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.errors import wrap
from pykubelet.linux.pidfd import PidFd

_DELETE_DEADLINE: Seconds = 5.0
_FIRST_PAUSE: Seconds = 0.001
_LONGEST_PAUSE: Seconds = 0.1


def below(mount: Path, path: str) -> Path:
    """The directory of a cgroup in one hierarchy. Raises Invalid for the root itself and for `..`.

    The root is never ours to change, least of all to delete.
    """
    parts = [part for part in path.split("/") if part]
    if not parts or ".." in parts:
        raise Invalid(f"{path!r} is not the path of a cgroup below the root")
    return mount.joinpath(*parts)


class CgroupFiles:
    """Reads, writes and removes below the mount points of cgroup hierarchies."""

    def read(self, path: Path) -> str:
        """Content of a control file. NotFound when the file or the cgroup is missing."""
        try:
            return path.read_text(errors="replace")
        except OSError as error:
            raise wrap(error, f"cannot read {path}") from error

    def write(self, path: Path, value: str) -> None:
        """Write a control file; the kernel takes the whole value or refuses it."""
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, value.encode())
            finally:
                os.close(fd)
        except OSError as error:
            raise wrap(error, f"cannot write {value!r} to {path}") from error

    def make(self, path: Path) -> bool:
        """Make one cgroup below an existing one; false when it is there already."""
        try:
            path.mkdir(0o755)
        except FileExistsError:
            return False
        except OSError as error:
            raise wrap(error, f"cannot make cgroup {path}") from error
        return True

    def remove(self, path: Path) -> None:
        """Remove one cgroup without children; fine when it is gone. Transient while processes are in it."""
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise wrap(error, f"cannot remove cgroup {path}") from error

    def subdirectories(self, path: Path) -> list[str]:
        """Names of the cgroups directly below; empty when there is no such cgroup."""
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            # A cgroup removed while it is listed.
            if error.errno == errno.ENODEV:
                return []
            raise wrap(error, f"cannot list cgroup {path}") from error

    def tree(self, path: Path) -> list[Path]:
        """The cgroup and all below it, children before parents; empty when there is none."""
        if not path.is_dir():
            return []
        below = [found for name in self.subdirectories(path) for found in self.tree(path / name)]
        return [*below, path]

    def processes(self, paths: Iterable[Path]) -> frozenset[int]:
        """Processes in exactly these cgroups; 0 stands for those of another pid namespace."""
        pids: set[int] = set()
        for path in paths:
            try:
                pids.update(int(line) for line in self.read(path / "cgroup.procs").split())
            except PykubeletError:
                continue  # removed meanwhile, or a threaded cgroup, whose processes show in its parent
        return frozenset(pids)

    def delete_trees(self, roots: Iterable[Path]) -> None:
        """Kill everything in these cgroups and below, and remove them. See `CgroupDriver.delete`."""
        roots = tuple(roots)
        deadline = time.monotonic() + _DELETE_DEADLINE
        pause = _FIRST_PAUSE
        while True:
            busy = self._remove_all(roots)
            if busy is None:
                return
            if time.monotonic() >= deadline:
                left = sorted(self.processes(path for root in roots for path in self.tree(root)))
                raise Transient(f"{busy}; processes that do not die: {left}") from busy
            self.kill(roots)
            # Killed processes leave their cgroup only when the kernel has taken them apart.
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def kill(self, roots: Iterable[Path]) -> None:
        """SIGKILL to every process in these cgroups and below, ourselves excepted."""
        paths = [path for root in roots for path in self.tree(root)]
        for path in paths:
            self._thaw(path)
        for pid in self.processes(paths) - {0, os.getpid()}:
            try:
                with PidFd(pid) as process:
                    # The number may have passed to another process since; the handle cannot.
                    if pid in self.processes(paths):
                        process.send_signal(signal.SIGKILL)
            except NotFound:
                continue

    def _thaw(self, path: Path) -> None:
        """A frozen process of cgroup v1 does not die before it is thawed; on v2 there is no such file."""
        try:
            self.write(path / "freezer.state", "THAWED")
        except PykubeletError:
            pass

    def _remove_all(self, roots: Iterable[Path]) -> PykubeletError | None:
        """Remove what can be removed; returns the first obstacle."""
        obstacle: PykubeletError | None = None
        for root in roots:
            for path in self.tree(root):
                try:
                    self.remove(path)
                except Transient as error:
                    obstacle = obstacle or error
        return obstacle
