"""Unpacks layers by forks of a process that has one thread and has imported everything.

``python -m tests.fuzz.layer_workers FD`` is that process: requests come through the socket FD. Starting the worker's
program takes 0.2 s; a fork of pytest itself is no substitute, as another thread may hold a lock at that moment.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pykubelet.base import proc
from pykubelet.criserver.unpack import worker

_LIMIT: Final = 120.0
"""Seconds after which an unpacking counts as hung; a layer of the fuzz tests takes milliseconds."""
_LONGEST: Final = 1 << 16
_OF_WORKER: Final = 4
"""The number of arguments before those of the worker: ``python -P -m MODULE``."""
_FD, _PARENT = 1, 3
_ROOT: Final = Path(__file__).resolve().parents[2]


class LayerWorkers:
    """The other process; its ``run`` has the signature of ``proc.run``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    async def run(self, argv: Sequence[str], *, pass_fds: tuple[int, ...], **_: Any) -> proc.CompletedProgram:
        arguments = list(argv[_OF_WORKER:])
        with os.fdopen(os.memfd_create("output"), "w+b") as output:
            fds = [int(arguments[_FD]), output.fileno(), *(fd for fd in pass_fds if fd != int(arguments[_FD]))]
            socket.send_fds(self._connection, [json.dumps(arguments).encode()], fds)
            code = int(self._connection.recv(_LONGEST))  # TimeoutError: the worker hangs
            output.seek(0)
            return proc.CompletedProgram(code, output.read(), b"")


@contextmanager
def layer_workers() -> Iterator[LayerWorkers]:
    """Run the process while the context is open."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        here.settimeout(_LIMIT)
        argv = [sys.executable, "-m", "tests.fuzz.layer_workers", str(there.fileno())]
        process = subprocess.Popen(argv, pass_fds=(there.fileno(),), cwd=_ROOT, process_group=0)
        try:
            there.close()
            yield LayerWorkers(here)
        finally:
            process.kill()  # its worker gets SIGKILL by that
            process.wait()


def _serve(connection: socket.socket) -> None:
    while True:
        data, fds, _, _ = socket.recv_fds(connection, _LONGEST, 8)
        if not data:
            return
        code = _unpack(json.loads(data), fds)
        for fd in fds:
            os.close(fd)
        connection.send(str(code).encode())


def _unpack(arguments: list[str], fds: Sequence[int]) -> int:
    arguments[_FD], arguments[_PARENT] = str(fds[0]), str(os.getpid())
    child = os.fork()
    if child == 0:
        code = 70
        with suppress(BaseException):
            os.dup2(fds[1], 1)
            sys.stdout = os.fdopen(1, "w")
            code = worker.main(arguments)
            sys.stdout.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
