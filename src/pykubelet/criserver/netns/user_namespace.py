"""A short-lived process in a new user namespace and further new namespaces, from which they can be pinned.

A thread cannot enter a user namespace, so a child process is needed: ``unshare`` (util-linux) executes ``cat``, which
echoes a byte once it is inside, and ends when its input does.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.base.proc import spawn
from pykubelet.base.units import Seconds
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.types import IdMap, ProcessRef

_INSIDE: Seconds = 10.0
_FLAGS = {"user": "--user", "network": "--net", "ipc": "--ipc", "uts": "--uts"}


@asynccontextmanager
async def process_in_new_namespaces(kinds: tuple[str, ...], ids: IdMap) -> AsyncIterator[ProcessRef]:
    """Start a process in new namespaces of these types, with these ids mapped, and yield it.

    It may be killed at any time, and its PID used again: what the caller has found by its PID is of this process only
    if that is alive afterwards.

    Raises NotFound if ``unshare`` is not installed, Permanent if the machine allows no user namespaces, and Transient
    if it times out, or the process is killed before its ids are mapped.
    """
    program = shutil.which("unshare")
    if program is None:
        raise NotFound("unshare is not installed; pods with user namespaces need it (apt-get install util-linux)")
    argv = [program, *(_FLAGS[kind] for kind in kinds), "cat"]
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    there, here = os.pipe(), os.pipe()
    open_fds = [*there, *here]
    try:
        child = await spawn(argv, stdin=there[0], stdout=here[1], stderr=subprocess.DEVNULL, env={"PATH": path})
        for fd in (there[0], here[1]):
            os.close(fd)
            open_fds.remove(fd)
        try:
            process = reference(child.pid)
            with suppress(BrokenPipeError):  # it has ended already; the read finds that
                os.write(there[1], b"x")
            if await _byte(here[0]) != b"x":
                raise Permanent("cannot create a user namespace (see user.max_user_namespaces)")
            assert process is not None, "it was not reaped yet: nothing was awaited since its start"
            await blocking.call(f"userns/{child.pid}", _map, process, ids)
            yield process
        finally:
            os.close(there[1])
            open_fds.remove(there[1])
            await child.wait()
    finally:
        for fd in open_fds:
            os.close(fd)


async def _byte(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        async with asyncio.timeout(_INSIDE):
            await readable.wait()
    except TimeoutError as error:
        raise Transient(f"unshare did not create namespaces within {_INSIDE:g} s") from error
    finally:
        loop.remove_reader(fd)
    return os.read(fd, 1)


def _map(process: ProcessRef, ids: IdMap) -> None:
    """Map the ids of a process's user namespace. Permanent: the kernel refuses it; Transient: the process has ended."""
    ended = f"process {process.pid} ended before its ids were mapped"
    for name, first, count in (("uid_map", ids.uid, ids.uids), ("gid_map", ids.gid, ids.gids)):
        try:
            with Path(f"/proc/{process.pid}/{name}").open("w") as file:
                # The open file stays that of the process which had the PID when it was opened.
                if not is_alive(process):
                    raise Transient(ended)
                file.write(f"0 {first} {count}\n")
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Transient(ended) from error
        except OSError as error:
            raise Permanent(f"the kernel refuses the mapping of {count} ids from {first}: {error.strerror}") from error
