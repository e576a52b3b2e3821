"""Identifies shims by their arguments, and kills those whose address is unknown: the server was killed while it started
them. Blocking.
"""

import signal
from contextlib import suppress
from itertools import pairwise

from pykubelet.base.errors import NotFound
from pykubelet.criserver.processes import is_of_machine, open_process, reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs

_ROUNDS = 8


def end_strays(sandbox: str) -> bool:
    """Kill the shim of a sandbox, and the program that is just starting it: their arguments name the sandbox's id.

    Returns whether none of them is left.

    The id is random; and only processes of the machine itself count, so no container can pass for a shim.
    """
    return any(not _kill_all(sandbox) for _ in range(_ROUNDS))


def shim_process(pid: int, sandbox: str) -> ProcessRef | None:
    """Identify the process that a shim tells as its own; None: it is no shim of this sandbox.

    It gets signals later, so the word of a broken shim is not enough.
    """
    ref = reference(pid)
    # The arguments of a process in a container are not read: it can make that block for ever.
    return ref if ref is not None and is_of_machine(pid) and _names(pid, sandbox) else None


def _names(pid: int, sandbox: str) -> bool:
    arguments = procfs.arguments(pid) or ()
    return any(each == b"-id" and following == sandbox.encode() for each, following in pairwise(arguments))


def _kill_all(sandbox: str) -> int:
    """Kill all processes that name the sandbox; how many there were."""
    return sum(_kill(pid, sandbox) for pid in procfs.pids())


def _kill(pid: int, sandbox: str) -> bool:
    """Kill a process that names the sandbox; whether it was there."""
    process = open_process(shim_process(pid, sandbox))
    if process is None:
        return False
    with process, suppress(NotFound):
        process.send_signal(signal.SIGKILL)
    return True
