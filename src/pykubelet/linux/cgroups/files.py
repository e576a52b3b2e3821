"""File operations of both cgroup drivers, and the removal of a whole subtree.

They are methods of a class so that tests can replace them by a fake cgroup file system.
"""

import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.files.safe_path import proc_path
from pykubelet.base.units import Seconds
from pykubelet.linux.errors import wrap
from pykubelet.linux.pidfd import PidFd

_DELETE_DEADLINE: Seconds = 5.0
_FIRST_PAUSE: Seconds = 0.001
_LONGEST_PAUSE: Seconds = 0.1
_LONGEST_PATH: Final = 3000
"""In bytes; the kernel takes 4095, and below it are a name and that of a control file."""
_HELD: Final = 128
"""Processes of which handles are open at a time."""
_LOOKED_AT: Final = 4096
_PROCESSES: Final = "pids.max"
_SHOWN: Final = 8
"""Processes that an error names; there may be tens of thousands, and an error in a CRI call has a few KiB."""


def below(mount: Path, path: str) -> Path:
    """The directory of a cgroup in one hierarchy. Raises Invalid for the root itself and for `..`.

    The root must never be changed, let alone deleted.
    """
    parts = [part for part in path.split("/") if part]
    if not parts or ".." in parts:
        raise Invalid(f"{path!r} is not the path of a cgroup below the root")
    return mount.joinpath(*parts)


def _is_long(path: Path) -> bool:
    return len(os.fsencode(path)) > _LONGEST_PATH


class CgroupFiles:
    """Reads, writes and removes below the mount points of cgroup hierarchies."""

    def read(self, path: Path) -> str:
        """Read a control file. Raises NotFound if the file or the cgroup is missing."""
        try:
            return path.read_text(errors="replace")
        except OSError as error:
            raise wrap(error, f"cannot read {path}") from error

    def write(self, path: Path, value: str) -> None:
        """Write a control file; the kernel accepts the whole value or rejects it."""
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, value.encode())
            finally:
                os.close(fd)
        except OSError as error:
            raise wrap(error, f"cannot write {value!r} to {path}") from error

    def make(self, path: Path) -> bool:
        """Create one cgroup below an existing one; returns False if it exists already."""
        try:
            path.mkdir(0o755)
        except FileExistsError:
            with suppress(PykubeletError):
                # A deletion that was given up may have left its limit.
                if self.read(path / _PROCESSES).strip() == "0":
                    self.write(path / _PROCESSES, "max")
            return False
        except OSError as error:
            raise wrap(error, f"cannot make cgroup {path}") from error
        return True

    def remove(self, path: Path) -> None:
        """Remove one cgroup without children. Idempotent. Raises Transient while processes are in it."""
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise wrap(error, f"cannot remove cgroup {path}") from error

    def subdirectories(self, path: Path) -> list[str]:
        """The names of the direct child cgroups; empty if the cgroup does not exist."""
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            # The cgroup was removed while it was listed.
            if error.errno == errno.ENODEV:
                return []
            raise wrap(error, f"cannot list cgroup {path}") from error

    def tree(self, path: Path) -> Iterator[Path]:
        """The cgroup and all its descendants, children before parents; none if it does not exist.

        A container may have made cgroups too deep for recursion and for paths. So a path is valid only until the next
        one is asked for.
        """
        found: list[Path] = []
        left = [path] if path.is_dir() else []
        while left:
            found.append(each := left.pop())
            if not _is_long(each):
                left.extend(each / name for name in self.subdirectories(each))
        for each in reversed(found):
            if _is_long(each):
                yield from self._below(each)
            yield each

    def _below(self, path: Path) -> Iterator[Path]:
        """The descendants of a cgroup, by paths that begin at its descriptor."""
        try:
            fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise wrap(error, f"cannot open cgroup {path}") from error
        try:
            here = Path(proc_path(fd))
            for name in self.subdirectories(here):
                yield from self.tree(here / name)
        finally:
            os.close(fd)

    def part_of_tree(self, path: Path) -> Iterator[Path]:
        """The cgroup and its descendants, parents before children, but ``_LOOKED_AT`` of them at most."""
        left = [path]
        for _ in range(_LOOKED_AT):
            if not left:
                return
            yield (each := left.pop())
            with suppress(PykubeletError):  # its path is too long
                left.extend(each / name for name in islice(self.subdirectories(each), _LOOKED_AT))

    def processes(self, paths: Iterable[Path]) -> frozenset[int]:
        """The pids in exactly these cgroups; 0 stands for processes outside of the pid namespace."""
        pids: set[int] = set()
        for path in paths:
            try:
                pids.update(int(line) for line in self.read(path / "cgroup.procs").split())
            except PykubeletError:
                continue  # removed meanwhile, or a threaded cgroup, whose processes show in its parent
        return frozenset(pids)

    def delete_trees(self, roots: Iterable[Path]) -> None:
        """Kill all processes in these cgroups and their descendants, and remove them. See `CgroupDriver.delete`."""
        roots = tuple(roots)
        deadline = time.monotonic() + _DELETE_DEADLINE
        pause = _FIRST_PAUSE
        while True:
            busy = self._remove_all(roots)
            if busy is None:
                return
            if time.monotonic() >= deadline:
                left = sorted(self._processes_below(roots))
                shown = ", ".join(map(str, left[:_SHOWN])) + (", …" if left[_SHOWN:] else "")
                raise Transient(f"{busy}; processes that do not end after SIGKILL ({len(left)}): {shown}") from busy
            self.kill(roots)
            # Killed processes leave their cgroup only after the kernel has torn them down.
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def kill(self, roots: Iterable[Path]) -> None:
        """Send SIGKILL to every process in these cgroups and their descendants, except this one."""
        roots = tuple(roots)
        found = self._processes_below(roots)
        if os.getpid() not in found:
            for root in roots:
                self._end_forks(root)
        pids = sorted(found - {0, os.getpid()})
        # There may be tens of thousands of processes and cgroups: the cgroups are not read for each process.
        for first in range(0, len(pids), _HELD):
            with ExitStack() as handles:
                held: dict[int, PidFd] = {}
                for pid in pids[first : first + _HELD]:
                    with suppress(NotFound):
                        held[pid] = handles.enter_context(PidFd(pid))
                # A pid may belong to another process by now; the pidfd cannot.
                for pid in self._processes_below(roots) & held.keys():
                    with suppress(NotFound):
                        held[pid].send_signal(signal.SIGKILL)
        self._thaw(roots)  # at last, since no process is left then that could freeze them again

    def _processes_below(self, roots: Iterable[Path]) -> frozenset[int]:
        return self.processes(path for root in roots for path in self.tree(root))

    def _end_forks(self, path: Path) -> None:
        """Let no process of a cgroup fork again: those of a fork bomb are more than are killed in a round."""
        with suppress(PykubeletError):  # in the other hierarchies of v1 this file does not exist
            self.write(path / _PROCESSES, "0")

    def _thaw(self, roots: Iterable[Path]) -> None:
        """Thaw cgroups and their descendants: a frozen process of v1 does not die before."""
        for path in (path for root in roots for path in self.tree(root)):
            with suppress(PykubeletError):  # on v2, and in the other hierarchies of v1, this file does not exist
                self.write(path / "freezer.state", "THAWED")

    def _remove_all(self, roots: Iterable[Path]) -> PykubeletError | None:
        """Remove the cgroups that can be removed; returns the first error, or None."""
        obstacle: PykubeletError | None = None
        for root in roots:
            with suppress(PykubeletError):
                self.remove(root)  # most have no children, and need not be listed
                continue
            for path in self.tree(root):
                try:
                    self.remove(path)
                except Transient as error:
                    obstacle = obstacle or error
        return obstacle
