"""Processes of containers, and what a cut start has left of them."""

import asyncio
import os
import signal
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.safe_path import read_regular
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.command import in_container
from pykubelet.criserver.oci.exectree import kill_tree
from pykubelet.criserver.processes import is_alive, is_of_machine, reference
from pykubelet.criserver.types import ContainerID, ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd

_NUMBER = 32
"""Bytes that a file with a process number may have."""
_ROUNDS = 64
_DEATH: Seconds = 10.0


def noted_number(file: Path) -> int:
    """The process number that conmon or an OCI runtime has noted; 0 when there is none."""
    try:
        return max(0, int(read_regular(file, _NUMBER)))
    except (OSError, ValueError):
        return 0


def noted_monitor(bundle: Path, container: str) -> ProcessRef | None:
    """The conmon whose number is in the bundle; None when that number is another process's by now."""
    ref = reference(noted_number(bundle / "conmon.pid"))
    if ref is None or not is_of_machine(ref.pid):
        return None
    found = container.encode() in (procfs.arguments(ref.pid) or ())
    # Asked between two looks at the start time, the answers are about that process.
    return ref if found and reference(ref.pid) == ref else None


def monitors(program: str) -> dict[ContainerID, ProcessRef]:
    """All running conmons by container, found in /proc: for starts that were cut before the number was recorded.

    A process counts only if it runs that program and belongs to the machine: any container can have such arguments.
    """
    found: dict[ContainerID, ProcessRef] = {}
    known = _Program(program)
    for pid in procfs.pids():
        ref = reference(pid) if known.may_be_run_by(pid) and is_of_machine(pid) else None
        if ref is not None:
            arguments = procfs.arguments(pid) or ()
            if b"-c" in arguments[:-1] and known.is_run_with(arguments) and reference(pid) == ref:
                name = arguments[arguments.index(b"-c") + 1]
                found[ContainerID(name.decode(errors="replace"))] = ref
    return found


class _Program:
    """Tells the processes of one program from others."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._script = file.read(2) == b"#!"
                facts = os.fstat(file.fileno())
                self._identity: procfs.Identity | None = procfs.Identity(facts.st_dev, facts.st_ino)
        except OSError:
            self._script, self._identity = False, None

    def may_be_run_by(self, pid: int) -> bool:
        """By the file that it runs; a script's processes run its interpreter, and one started before an upgrade runs
        the old file."""
        if self._script or (self._identity is not None and procfs.program(pid) == self._identity):
            return True
        return (procfs.program_path(pid) or "").removesuffix(" (deleted)") == self._path

    def is_run_with(self, arguments: tuple[bytes, ...]) -> bool:
        """By the arguments, of a script."""
        return not self._script or os.fsencode(self._path) in arguments


def orphan_runs(bundle: Path, container: str) -> bool:
    """Whether a container that no record speaks of has a monitor or a first process."""
    if noted_monitor(bundle, container) is not None:
        return True
    pid = noted_number(bundle / "pid")
    return in_container(pid, container) and is_alive(reference(pid))


async def kill_group(process: PidFd) -> None:
    """SIGKILL a conmon with all below it (the OCI runtime, the container's first process), and wait for their end.

    What else the runtime has started is in the container's cgroup. Transient: one of them does not die, it hangs in
    the kernel.
    """
    with ExitStack() as handles, suppress(NotFound):
        members = {process.pid: process}
        # Stopped, they begin nothing more, and stay the parents of what they have begun until all are known.
        process.send_signal(signal.SIGSTOP)
        for _ in range(_ROUNDS):
            news = [child for pid in tuple(members) for child in _held_children(pid, members, handles)]
            if not news:
                break
            for child in news:
                members[child.pid] = child
                with suppress(NotFound):
                    child.send_signal(signal.SIGSTOP)
        for member in members.values():
            with suppress(NotFound):
                member.send_signal(signal.SIGKILL)
        for member in members.values():
            try:
                async with asyncio.timeout(_DEATH):
                    await member.wait()
            except TimeoutError as error:
                raise Transient(f"process {member.pid} does not die: it hangs in the kernel") from error


def _held_children(parent: int, known: Collection[int], handles: ExitStack) -> list[PidFd]:
    """Handles on the children of a process that are not known yet."""
    found = []
    for pid in procfs.children(parent):
        if pid not in known:
            with suppress(NotFound):
                child = handles.enter_context(PidFd(pid))
                # The number may have passed to another process before it was held.
                now = procfs.stat(pid)
                if now is not None and now.parent == parent:
                    found.append(child)
    return found


def end_commands(scratch: Path, containers: Collection[str]) -> None:
    """Kill the commands in containers (exec) that a killed server has left running, with all they have started: nobody
    hears them. Blocking.

    The OCI runtime has noted each one's number; a process counts only while it is in a container's cgroup.
    """
    for note in scratch.glob("exec-*/pid"):
        first = noted_number(note)
        if first > 0:
            kill_tree(first, lambda pid: any(in_container(pid, each) for each in containers))
