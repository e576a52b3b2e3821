"""Processes by number and start time, so that a reused number is not taken for the process that is meant."""

from contextlib import suppress
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.pidfd import PidFd

_PROC = Path("/proc")


def reference(pid: int) -> ProcessRef | None:
    """The process with this number as it is now; None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Fields follow the command in parentheses, which may itself hold any character (proc_pid_stat(5)).
    return ProcessRef(pid, int(text.rpartition(")")[2].split()[19]))


def open_process(ref: ProcessRef | None) -> PidFd | None:
    """A handle on exactly that process while it runs; None when it has ended."""
    if ref is None or ref.pid <= 0:
        return None
    with suppress(NotFound):
        process = PidFd(ref.pid)
        if reference(ref.pid) == ref and not process.exited():
            return process
        process.close()
    return None


def is_alive(ref: ProcessRef | None) -> bool:
    """Whether that process runs."""
    process = open_process(ref)
    if process is None:
        return False
    process.close()
    return True
