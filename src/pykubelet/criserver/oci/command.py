"""A command that an OCI runtime runs in a container, told apart from whatever gets its number after its end."""

from contextlib import suppress
from pathlib import Path

from pykubelet.criserver.oci.exectree import kill_tree
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd


class Command:
    """Known by the number that the runtime has noted. It is trusted only for a process that shows that it is the
    command: it is in the container's cgroup, or the runtime's child. From then on its start time stands for it."""

    def __init__(self, pid_file: Path, container: str) -> None:
        self._pid_file = pid_file
        self._container = container
        self.owner = f"exec/{container}"
        """Of its blocking calls: those on the container's own files may hang."""
        self._first: ProcessRef | None = None
        self.runtime: int | None = None
        """Number of the runtime's process, while that is our child and not reaped."""

    def noted(self) -> bool:
        """Whether the runtime has begun the command. Blocks shortly."""
        return self._number() is not None

    def open(self) -> PidFd | None:
        """A handle on the command's first process; None before its begin and after its end. Blocks shortly."""
        if self._first is None:
            seen = reference(self._number() or 0)
            # Asked between two looks at the start time, the answer is about that process.
            if seen is not None and self._belongs(seen.pid) and reference(seen.pid) == seen:
                self._first = seen
        return open_process(self._first)

    def kill(self) -> None:
        """SIGKILL for it and all that it has started, nothing for others. Blocking."""
        number = self._number()
        first = self.open()
        if first is not None:
            first.close()
        if number is None or (self._first is not None and reference(number) not in (None, self._first)):
            return  # not begun; or its number is another's, so nothing is left of its session
        kill_tree(number, self._belongs)

    def _number(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._pid_file.read_bytes())
        return None

    def _belongs(self, pid: int) -> bool:
        return in_container(pid, self._container) or (
            self.runtime is not None and self.runtime in (pid, parent_of(pid))
        )


def in_container(pid: int, container: str) -> bool:
    """Whether the process is in the cgroup of that container, or below it."""
    return any(container in each.path for each in procfs.cgroups(pid) or ())


def parent_of(pid: int) -> int | None:
    """The number of a process's parent; None when there is no such process."""
    found = procfs.stat(pid)
    return found.parent if found else None
