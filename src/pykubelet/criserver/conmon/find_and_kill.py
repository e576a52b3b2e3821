"""Finds and kills processes of containers, also those of an interrupted start."""

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.command import container_of, in_container
from pykubelet.criserver.oci.exectree import kill_trees
from pykubelet.criserver.processes import is_alive, is_of_machine, reference
from pykubelet.criserver.types import ContainerID, ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.errors import raise_passing
from pykubelet.linux.pidfd import PidFd

_log = logging.getLogger(__name__)
_NUMBER = 32
"""Maximum size of a PID file in bytes."""
_ROUNDS = 64
_DEATH: Seconds = 10.0


def noted_number(file: Path) -> int:
    """Read a PID file of conmon or an OCI runtime; 0: missing or invalid. Transient: it cannot be read for now."""
    try:
        return max(0, int(read_regular(file, _NUMBER)))
    except (OSError, ValueError) as error:
        raise_passing(error, str(file))
        return 0


def noted_monitor(bundle: Path, container: str) -> ProcessRef | None:
    """Find the conmon whose PID is in the bundle; None: the PID belongs to another process now."""
    ref = reference(noted_number(bundle / "conmon.pid"))
    if ref is None or not is_of_machine(ref.pid):
        return None
    found = container.encode() in (procfs.arguments(ref.pid) or ())
    # The start time is the same before and after, so the answers are about that process.
    return ref if found and reference(ref.pid) == ref else None


def monitors(program: str) -> dict[ContainerID, ProcessRef]:
    """Find all running conmons in /proc, by container: for starts that were interrupted before the PID was recorded.

    A process counts only if it runs that program and belongs to the machine: any container can use such arguments.
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
    """Recognition of the processes of one program."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._paths = {path, os.path.realpath(path)}
        self._names = {Path(each).name for each in self._paths}
        try:
            with open(path, "rb") as file:
                self._script = file.read(2) == b"#!"
                facts = os.fstat(file.fileno())
                self._identity: procfs.Identity | None = procfs.Identity(facts.st_dev, facts.st_ino)
        except OSError:
            self._script, self._identity = False, None

    def may_be_run_by(self, pid: int) -> bool:
        """Whether the process may run the program, by its executable: that of a script is the interpreter, and after
        an upgrade a process still runs the old file.

        The files of other programs are not looked at: one on a volume that hangs or fails would stop the server.
        """
        path = (procfs.program_path(pid) or "").removesuffix(" (deleted)")
        if self._script or path in self._paths:
            return True
        if self._identity is None or path.rpartition("/")[2] not in self._names or not is_of_machine(pid):
            return False
        with suppress(PykubeletError):
            return procfs.program(pid) == self._identity
        return False

    def is_run_with(self, arguments: tuple[bytes, ...]) -> bool:
        """Whether a script's process runs the program, by its arguments."""
        return not self._script or os.fsencode(self._path) in arguments


def orphan_runs(bundle: Path, container: str) -> bool:
    """Whether a container without a record has a conmon or a first process, or that cannot be read for now."""
    try:
        if noted_monitor(bundle, container) is not None:
            return True
        pid = noted_number(bundle / "pid")
    except Transient:
        return True
    return in_container(pid, container) and is_alive(reference(pid))


async def kill_group(process: PidFd) -> None:
    """Kill a conmon and its descendants (the OCI runtime, the container's first process), and wait for their end.

    Other processes that the runtime has started are in the container's cgroup. Transient: a process hangs in the
    kernel and does not end after SIGKILL.
    """
    with ExitStack() as handles, suppress(NotFound):
        members = {process.pid: process}
        # Stopped processes start nothing more, and remain the parents of their children until all are known.
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
                raise Transient(f"process {member.pid} hangs in the kernel: it does not end after SIGKILL") from error


def _held_children(parent: int, known: Collection[int], handles: ExitStack) -> list[PidFd]:
    """Open handles of the children of a process that are not known yet."""
    found = []
    for pid in procfs.children(parent):
        if pid not in known:
            with suppress(NotFound):
                child = handles.enter_context(PidFd(pid))
                # The PID may have been reused before the handle was opened.
                now = procfs.stat(pid)
                if now is not None and now.parent == parent:
                    found.append(child)
    return found


def retire_commands(scratch: Path, monotonic: Callable[[], Seconds], longest: Seconds) -> list[Path]:
    """Kill the exec commands of killed servers. Return the stale directories of the files of their calls. Blocking.

    ``scratch`` is the directory of such files, which is renamed: an OCI runtime that has just started a command cannot
    write its PID file after this, and so ends the command. The killing takes the ``longest`` time at most.
    """
    end = monotonic() + longest
    if os.path.lexists(scratch):
        scratch.rename(scratch.with_name(f"{scratch.name}.old-{secrets.token_hex(4)}"))
    old = list(scratch.parent.glob(f"{scratch.name}.old*"))
    for directory in old:
        end_commands(directory, lambda: monotonic() > end)
    return old


def end_commands(scratch: Path, is_late: Callable[[], bool]) -> None:
    """Kill exec commands that a killed server left running, with all their descendants, until it is late. Blocking.

    No client reads their output. The OCI runtime wrote a PID file for each, in a directory with the container's id; a
    process counts only while it is in the cgroup of a container with such a command. A PID that a process of another
    container has by now is that of no command.
    """
    commands: set[tuple[int, str]] = set()
    for note in scratch.glob("exec-?*-*/pid"):  # older servers named no container: its PID may be any process's by now
        try:
            commands.add((noted_number(note), container_of(note.parent)))
        except Transient as error:  # it must not keep the server from starting
            _log.warning("command of a killed server not ended", extra={"error": str(error)})
    firsts = {pid for pid, container in commands if pid > 0 and _may_be_of(pid, container)}
    containers = {container for _, container in commands}
    if not kill_trees(firsts, lambda pid: in_container(pid, *containers), is_late):
        _log.warning("commands of a killed server may still run; they end with their containers")


def _may_be_of(pid: int, container: str) -> bool:
    """Whether no process of another container has the PID. Those that have ended are in no cgroup."""
    found = procfs.stat(pid)
    return found is None or found.ended or in_container(pid, container)
