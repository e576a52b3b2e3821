"""``python -m pykubelet.criserver.unpack.worker DIRECTORY FD MERGED PARENT LIMITS FILE``: unpack a layer.

The layer is read from FD and written into DIRECTORY. FILE is empty for a tar stream; for the blob of an artifact it is
``ALGORITHM:PATH``, the algorithm of the blob's digest and the path of the file that the blob becomes.

As ``worker - SOCKET PARENT`` it loads its modules, and then waits for one message on that socket: a JSON list of the
arguments above without FD, and the descriptors of the layer and of the lock on its directory. It ends when the other
side closes.

Prints one JSON object: the result, or ``error`` and ``kind`` ("bad": the layer, "system": the machine); with an error
the exit code is 1. FD is open before the chroot, but its content is read only inside.
"""

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence

from msgspec.structs import asdict

from pykubelet.base.units import GIB
from pykubelet.criserver.unpack.account import Account
from pykubelet.criserver.unpack.extract import Extractor
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.memory import MemoryGate
from pykubelet.criserver.unpack.onefile import write_file
from pykubelet.criserver.unpack.stream import ByteStream
from pykubelet.criserver.unpack.tarstream import TarReader
from pykubelet.linux import libc
from pykubelet.linux.system import set_oom_score_adj

_MEMORY = 5 * GIB // 4
"""Libraries and the window of zstd take 0.25 GiB; four million long paths over the layers below, the most, 0.8 GiB."""
_FILES = 64
_LONGEST_MESSAGE = 1 << 16
_DESCRIPTORS = 4
"""Limit of the descriptors in a message; the ones beside the layer's are only kept open."""
_PR_SET_PDEATHSIG = 1
_FIRST_TO_DIE = 1000


def main(arguments: Sequence[str]) -> int:
    """Unpack the layer, print the outcome, and return the exit code."""
    directory = ""
    try:
        if arguments[0] == "-":
            found = _wait(*arguments[1:])
            if found is None:
                return 0
            arguments = found
        directory, fd, merged, parent, limits, file = arguments
        _end_with(int(parent))
        known = Limits(**json.loads(limits))
        gate = MemoryGate(known)
        _confine(directory)
        outcome = _write_file(int(fd), file, known) if file else _unpack(int(fd), merged == "1", known, gate)
    except BadLayer as error:
        outcome = {"kind": "bad", "error": str(error)}
    except OSError as error:
        outcome = {"kind": "system", "error": f"{error.filename or directory}: {error.strerror}", "errno": error.errno}
    except MemoryError:
        outcome = {"kind": "bad", "error": f"unpacking needs more than {_MEMORY} bytes of memory"}
    print(json.dumps(outcome))
    return 1 if "error" in outcome else 0


def _wait(channel: str, parent: str) -> Sequence[str] | None:
    """Wait for the arguments; None: there is nothing to unpack."""
    import socket  # only here: it takes time

    _end_with(int(parent))
    _load_everything()
    with socket.socket(fileno=int(channel)) as source:
        message, received, _, _ = socket.recv_fds(source, _LONGEST_MESSAGE, _DESCRIPTORS)
    if not message:
        return None
    directory, *others = json.loads(message)
    return directory, str(received[0]), *others


def _confine(directory: str) -> None:
    """Make the directory the root of this process, and limit its memory and its descriptors.

    If the machine has no memory left, it ends before any pod: it needs much for hostile layers only.
    """
    _load_everything()
    set_oom_score_adj(os.getpid(), _FIRST_TO_DIE)
    os.umask(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.chroot(directory)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def _write_file(fd: int, file: str, limits: Limits) -> dict[str, object]:
    algorithm, _, path = file.partition(":")
    account = Account(limits, os.fstat(fd).st_size)
    with os.fdopen(fd, "rb", buffering=0) as source:
        written, digest = write_file(source, path, algorithm, account)
    return asdict(written) | {"diff_id": digest}


def _unpack(fd: int, merged: bool, limits: Limits, gate: MemoryGate) -> dict[str, object]:
    account = Account(limits, os.fstat(fd).st_size)
    stream = ByteStream(os.fdopen(fd, "rb", buffering=0), limits, digest=True)
    try:
        written = Extractor(account, merged=merged).extract(TarReader(stream, limits, on_entry=gate.pass_entry))
        return asdict(written) | {"diff_id": stream.finish()}
    finally:
        stream.close()


def _end_with(parent: int) -> None:
    """Die when the server dies: the next server removes the unfinished layer, while no worker may write there."""
    libc.call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise ProcessLookupError(errno.ESRCH, "the server has ended meanwhile")


def _load_everything() -> None:
    """Import modules that Python loads at their first use: after the chroot they are not accessible."""
    import encodings.ascii
    import encodings.latin_1
    import encodings.utf_8  # noqa: F401

    try:
        import zstandard  # noqa: F401
    except ImportError:
        pass  # only layers that need it fail, with an error that names it
    os.strerror(errno.ENOSPC)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
