"""Processes by number and start time, so that a reused number is not taken for the process that is meant."""

from contextlib import suppress

from pykubelet.base.errors import NotFound
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd


def reference(pid: int) -> ProcessRef | None:
    """The process with this number as it is now; None when there is none."""
    found = procfs.stat(pid)
    return ProcessRef(pid, found.started) if found else None


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
