"""Processes by number and start time, so that a reused number is not taken for the process that is meant."""

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
    """The process with this number as it is now; None when there is none."""
    found = procfs.stat(pid)
    return ProcessRef(pid, found.started, system.boot_id()) if found else None


def _is(now: ProcessRef | None, ref: ProcessRef) -> bool:
    return now is not None and now == (ref if ref.boot else replace(ref, boot=now.boot))


def open_process(ref: ProcessRef | None) -> PidFd | None:
    """A handle on exactly that process while it runs; None when it has ended."""
    if ref is None or ref.pid <= 0:
        return None
    with suppress(NotFound):
        process = PidFd(ref.pid)
        if _is(reference(ref.pid), ref) and not process.exited():
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


def is_of_machine(pid: int) -> bool:
    """Whether a process belongs to the machine itself: it runs as we do, in our namespaces and in no container.

    A process in a container can give itself any name, arguments and environment, but it cannot pass this: with the
    machine's PID namespace it is in its container's cgroup still.
    """
    ours, theirs = procfs.status("self"), procfs.status(pid)
    if theirs is None or ours is None or theirs.get("Uid") != ours.get("Uid"):
        return False
    if any(procfs.namespace(pid, kind) != procfs.namespace("self", kind) for kind in _NAMESPACES):
        return False
    return _containers(procfs.cgroups(pid) or ()) <= _containers(procfs.cgroups("self") or ())


def _containers(memberships: Iterable[procfs.Membership]) -> set[str]:
    """The containers that these cgroups belong to: every runtime names them by 64 hexadecimal digits."""
    return {found for each in memberships for found in _CONTAINER.findall(each.path)}
