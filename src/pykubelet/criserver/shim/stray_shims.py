"""Finds and kills shims whose address is unknown: the server was killed while it started them. Blocking."""

import signal
from contextlib import suppress
from itertools import pairwise

from pykubelet.base.errors import NotFound
from pykubelet.criserver.processes import is_of_machine, open_process, reference
from pykubelet.linux import procfs

_ROUNDS = 8


def end_strays(sandbox: str) -> None:
    """Kill the shim of a sandbox, and the program that is just starting it: their arguments name the sandbox's id.

    The id is random; and only processes of the machine itself count, so no container can pass for a shim.
    """
    for _ in range(_ROUNDS):
        found = [pid for pid in procfs.pids() if _names(pid, sandbox)]
        if not sum(_kill(pid, sandbox) for pid in found):
            return


def _names(pid: int, sandbox: str) -> bool:
    arguments = procfs.arguments(pid) or ()
    return any(each == b"-id" and following == sandbox.encode() for each, following in pairwise(arguments))


def _kill(pid: int, sandbox: str) -> bool:
    """Kill a process that names the sandbox; whether it was there."""
    ref = reference(pid)
    process = open_process(ref) if ref is not None and is_of_machine(pid) and _names(pid, sandbox) else None
    if process is None:
        return False
    with process, suppress(NotFound):
        process.send_signal(signal.SIGKILL)
    return True
