"""An exec command of an OCI runtime, identified safely although its PID may be reused after its end."""

from contextlib import suppress
from pathlib import Path

from pykubelet.criserver.oci.exectree import kill_tree
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd


class Command:
    """An exec command, found by the runtime's PID file.

    The PID is trusted only if the process is in the container's cgroup or is the runtime's child; from then on the
    process is identified by its start time.
    """

    def __init__(self, pid_file: Path, container: str) -> None:
        self._pid_file = pid_file
        self.container = container
        self.owner = f"exec/{container}"
        """The owner of its blocking calls, which may hang on the container's files."""
        self._first: ProcessRef | None = None
        self.runtime: int | None = None
        """PID of the runtime's process, while that is our child and not reaped."""

    def noted(self) -> bool:
        """Whether the runtime has started the command. Blocks briefly."""
        return self._number() is not None

    def open(self) -> PidFd | None:
        """Open a handle of the command's first process; None before its start and after its end. Blocks briefly."""
        if self._first is None:
            seen = reference(self._number() or 0)
            # The start time is the same before and after, so the answer is about that process.
            if seen is not None and self._belongs(seen.pid) and reference(seen.pid) == seen:
                self._first = seen
        return open_process(self._first)

    def kill(self) -> None:
        """Kill the command and its descendants, and no other process. Blocking."""
        number = self._number()
        first = self.open()
        if first is not None:
            first.close()
        if number is None or (self._first is not None and reference(number) not in (None, self._first)):
            return  # not started; or its PID was reused, so its session has no process any more
        kill_tree(number, self._belongs)

    def _number(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._pid_file.read_bytes())
        return None

    def _belongs(self, pid: int) -> bool:
        return in_container(pid, self.container) or (self.runtime is not None and self.runtime in (pid, parent_of(pid)))


def directory_prefix(container: str) -> str:
    """The beginning of the name of the directory with an exec command's files; letters and digits follow."""
    return f"exec-{container}-"


def container_of(directory: Path) -> str:
    """The container of the exec command with that directory; empty if the name tells none."""
    return directory.name.removeprefix("exec-").rpartition("-")[0]


def in_container(pid: int, *containers: str) -> bool:
    """Whether the process is in the cgroup of one of the containers (with systemd, in its scope), or below it."""
    parts = {part for each in procfs.cgroups(pid) or () for part in each.path.split("/")}
    scopes = [part for part in parts if part.endswith(".scope")]
    return any(each in parts or any(scope.endswith(f"-{each}.scope") for scope in scopes) for each in containers)


def parent_of(pid: int) -> int | None:
    """The PID of a process's parent; None: there is no such process."""
    found = procfs.stat(pid)
    return found.parent if found else None
