"""Identifies processes by PID and start time, so that a reused PID is not mistaken for the recorded process."""

import re
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from pykubelet.base.errors import NotFound
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs, system
from pykubelet.linux.pidfd import PidFd

_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_NAMESPACES = ("pid", "user")


def reference(pid: int) -> ProcessRef | None:
    """Identify the process that has this PID now; None when the PID is unused."""
    found = procfs.stat(pid)
    return ProcessRef(pid, found.started, system.boot_id()) if found else None


def _is(now: ProcessRef | None, ref: ProcessRef) -> bool:
    return now is not None and now == (ref if ref.boot else replace(ref, boot=now.boot))


def open_process(ref: ProcessRef | None) -> PidFd | None:
    """Open a pidfd of exactly that process; None when it has ended. The caller closes it."""
    if ref is None or ref.pid <= 0:
        return None
    with suppress(NotFound):
        process = PidFd(ref.pid)
        if _is(reference(ref.pid), ref) and not process.exited():
            return process
        process.close()
    return None


def is_alive(ref: ProcessRef | None) -> bool:
    """Whether exactly that process is running."""
    process = open_process(ref)
    if process is None:
        return False
    process.close()
    return True


def is_of_machine(pid: int) -> bool:
    """Whether a process belongs to the machine itself: same user and namespaces as this process, and in no container.

    A process in a container can choose its name, arguments and environment, but cannot pass this test: even with the
    machine's PID namespace it is still in its container's cgroup.
    """
    # The quickest first: containers may have tens of thousands of processes.
    if any(procfs.namespace(pid, kind) != procfs.namespace("self", kind) for kind in _NAMESPACES):
        return False
    cgroups = procfs.cgroups(pid)
    if cgroups is None or not _containers(cgroups) <= _containers(procfs.cgroups("self") or ()):
        return False
    own, other = procfs.status("self"), procfs.status(pid)
    return other is not None and own is not None and other.get("Uid") == own.get("Uid")


def _containers(memberships: Iterable[procfs.Membership]) -> set[str]:
    """The container ids in these cgroup paths: every runtime uses 64 hexadecimal digits."""
    return {found for each in memberships for found in _CONTAINER.findall(each.path)}
