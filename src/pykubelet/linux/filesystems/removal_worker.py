"""``python -m … removal_worker PATH PARENT SECONDS NICE REST``: delete a large tree for a while.

A process of its own, because a thread of a daemon at a low priority could keep Python's lock from the others while it
waits for a CPU. Its I/O priority follows its CPU priority, as that of every process without an I/O class (ionice(1)).

Prints one JSON object: ``done`` (the tree is gone), or ``error``, with ``refused`` if entries cannot be removed.
"""

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from pykubelet.base.errors import Conflict
from pykubelet.base.units import Seconds
from pykubelet.linux import libc
from pykubelet.linux.filesystems.removal import removal_steps

_PR_SET_PDEATHSIG = 1
_WORK: Seconds = 0.02
"""Time of work between two rests."""


def main(arguments: Sequence[str]) -> int:
    """Delete, print the outcome, and return the exit code."""
    path, parent, seconds, niceness, rest = arguments
    outcome: dict[str, object]
    try:
        libc.call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            raise ProcessLookupError(errno.ESRCH, "the daemon has ended meanwhile")
        os.nice(int(niceness))
        outcome = {"done": _delete(path, float(seconds), float(rest))}
    except Conflict as error:
        outcome = {"error": str(error), "refused": True}
    except OSError as error:
        outcome = {"error": error.strerror or str(error), "refused": error.errno in (errno.EPERM, errno.EACCES)}
    print(json.dumps(outcome))
    return 1 if "error" in outcome else 0


def _delete(path: str, seconds: Seconds, rest: float) -> bool:
    """Delete for so many seconds; after each piece of work, rest for ``rest`` times as long. Whether all is deleted."""
    begin = mark = time.monotonic()
    parent, name = os.path.split(path)
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in removal_steps(fd, name):
            now = time.monotonic()
            if now - begin >= seconds:
                return False
            if rest and now - mark >= _WORK:
                time.sleep((now - mark) * rest)
                mark = time.monotonic()
    finally:
        os.close(fd)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
