"""Starts the program of a created container without running the OCI runtime again, which takes 10 ms.

runc's first process of a container waits at ``exec.fifo`` in the container's state directory: it opens the FIFO for
writing, writes a byte and executes the program. The reader that opens the FIFO releases it, and then removes the FIFO
(runc's ``libcontainer/container_linux.go``, since 1.0).

A shell does this, not this process. If the reader died between the two steps, the first process would die too, or the
program would run although the FIFO, by which recovery knows that it does not, still exists. The shell outlives this
server, and carries the mark by which the next server waits for it.
"""

import asyncio
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pykubelet.base.errors import Permanent
from pykubelet.base.proc import ExitError, run
from pykubelet.base.units import Seconds
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.types import ProcessRef

_NAME = "exec.fifo"
SHELL = "/bin/sh"
_SCRIPT = 'read -r byte < "$0"; test "$byte" = 0 && exec rm -f -- "$0"'
_CALL: Seconds = 60.0
_LAST: Seconds = 10.0
"""Time for the shell to finish after the process's end, on a busy machine."""


def fifo_of(state: Path) -> Path | None:
    """Find the FIFO in a container's state directory; None: no process waits there. Blocks briefly."""
    path = state / _NAME
    with suppress(OSError):
        if stat.S_ISFIFO(path.lstat().st_mode):
            return path
    return None


async def release_exec_fifo(fifo: Path, process: ProcessRef, env: Mapping[str, str]) -> None:
    """Let the process that waits at the FIFO execute the program. Permanent: it has died. Errors as of ``proc.run``."""
    first = open_process(process)
    if first is None:
        raise Permanent(f"{fifo}: process {process.pid} has died before it executed the program")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:
            # It may have executed the program and ended already; otherwise no process writes any more.
            with first, first.on_exit(lambda: limit.reschedule(loop.time() + _LAST)):
                await run([SHELL, "-c", _SCRIPT, str(fifo)], timeout=_CALL, env=env, cwd="/")
    except TimeoutError as error:
        raise Permanent(f"{fifo}: process {process.pid} has died before it executed the program") from error
    except ExitError as error:
        raise Permanent(f"{fifo}: process {process.pid} did not execute the program: {error}") from error
