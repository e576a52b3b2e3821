"""Processes of containers, and what a cut start has left of them."""

import asyncio
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.command import in_container
from pykubelet.criserver.oci.exectree import kill_tree
from pykubelet.criserver.oci.runtime import OWNER
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.types import ContainerID, ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd

_SETTLE: Seconds = 10.0


def noted_monitor(bundle: Path, container: str) -> ProcessRef | None:
    """The conmon whose number is in the bundle; None when that number is another process's by now."""
    try:
        pid = int((bundle / "conmon.pid").read_bytes())
    except (OSError, ValueError):
        return None
    return reference(pid) if container.encode() in (procfs.arguments(pid) or ()) else None


def monitors(program: str) -> dict[ContainerID, ProcessRef]:
    """All running conmons by container, found in /proc: for starts that were cut before anybody noted a number."""
    found: dict[ContainerID, ProcessRef] = {}
    for pid, arguments in _command_lines():
        if arguments and arguments[0] == program and "-c" in arguments[:-1]:
            ref = reference(pid)
            if ref is not None:
                found[ContainerID(arguments[arguments.index("-c") + 1])] = ref
    return found


def stray_runs(bundle: Path, container: str) -> bool:
    """Whether a container that no record speaks of has a monitor or a first process."""
    if noted_monitor(bundle, container) is not None:
        return True
    with suppress(OSError, ValueError):
        pid = int((bundle / "pid").read_bytes())
        return in_container(pid, container) and is_alive(reference(pid))
    return False


async def kill_group(process: PidFd) -> None:
    """SIGKILL a conmon with its children (the OCI runtime, the container's first process), and wait for their end.

    conmon leads a process group of its own; what else the runtime has started is in the container's cgroup.
    """
    with ExitStack() as handles:
        # Handles rather than the group are waited for: who has ended stays in it until somebody reaps it.
        members = [process]
        for pid in procfs.children(process.pid):
            with suppress(NotFound):
                members.append(handles.enter_context(PidFd(pid)))
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for member in members:
            with suppress(NotFound):
                member.send_signal(signal.SIGKILL)
            await member.wait()


def end_commands(scratch: Path, containers: Collection[str]) -> None:
    """Kill the commands in containers (exec) that a killed server has left running, with all they have started: nobody
    hears them. Blocking.

    The OCI runtime has noted each one's number; a process counts only while it is in a container's cgroup.
    """
    for note in scratch.glob("exec-*/pid"):
        with suppress(OSError, ValueError):
            kill_tree(int(note.read_bytes()), lambda pid: any(in_container(pid, each) for each in containers))


async def settle(owner: str, clock: Clock) -> None:
    """Wait for programs that a killed server has left running (plugins, runtime calls), and kill those that hang.

    They would otherwise go on making what recovery is about to undo. ``owner`` is what ``OWNER`` says in their
    environment.
    """
    mark = f"{OWNER}={owner}".encode()
    deadline = clock.monotonic() + _SETTLE
    while left := await asyncio.to_thread(_marked, mark):
        if clock.monotonic() > deadline:
            for pid in left:
                with suppress(NotFound), PidFd(pid) as process:
                    process.send_signal(signal.SIGKILL)
        await clock.sleep(0.02)


def _marked(mark: bytes) -> list[int]:
    return [pid for pid in procfs.pids() if pid != os.getpid() and mark in (procfs.environment(pid) or ())]


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for pid in procfs.pids():
        yield pid, [word.decode(errors="replace") for word in procfs.arguments(pid) or ()]
