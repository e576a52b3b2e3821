"""The commands of an OCI runtime for checkpoints: freeze, write, thaw."""

from contextlib import suppress
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Permanent
from pykubelet.base.units import MIB, Seconds
from pykubelet.criserver.oci.runtime import OciRuntime
from pykubelet.criserver.types import ContainerID

_FOREVER: Seconds = 1e9
_READ = 16 * MIB
_LINE = 300
_ERRORS = 4


async def pause(runtime: OciRuntime, container: ContainerID) -> None:
    """Freeze all processes of a running container. Errors as of ``call``."""
    await runtime.call("pause", container)


async def resume(runtime: OciRuntime, container: ContainerID) -> None:
    """Thaw the processes of a container. Permanent: it is not frozen, or does not exist."""
    await runtime.call("resume", container)


async def write_checkpoint(runtime: OciRuntime, container: ContainerID, images: Path, *, work: Path) -> None:
    """Have CRIU write the processes of a container to a directory, and its log to ``work``; they run on.

    Open TCP connections do not prevent it. Permanent, with the first error of CRIU's log: it failed.
    """
    flags = ("--leave-running", "--tcp-established", "--file-locks")
    places = ("--image-path", str(images), "--work-path", str(work))
    try:
        await runtime.call("checkpoint", *flags, *places, container, limit=_FOREVER)
    except Permanent as error:
        said = await blocking.call(f"checkpoint/{container}", said_by_criu, work / "dump.log")
        raise Permanent(f"{error}{said}") from error


def said_by_criu(log: Path) -> str:
    """The first errors in CRIU's log, for the end of a message; empty: none. The last ones only tell what it undoes.

    Blocks.
    """
    found: list[str] = []
    with suppress(OSError), log.open("rb") as file:
        left = _READ
        while left > 0 and len(found) < _ERRORS and (line := file.readline(_LINE)):
            left -= len(line)
            if b"Error (" in line:
                found.append(line.decode(errors="replace").strip())
    return f"; criu: {'; '.join(found)}" if found else ""
