"""Runs the extractor in forks of a process that has one thread.

``python -m tests.unit.criserver.unpack.forks`` is that process: requests come through its standard input, results go to
its standard output. A fork of pytest itself is no substitute, as another thread may hold a lock at that moment.
"""

import io
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.criserver.unpack import extract
from pykubelet.criserver.unpack.account import Account
from pykubelet.criserver.unpack.extract import Extractor, UnpackedLayer
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.stream import ByteStream
from pykubelet.criserver.unpack.tarstream import TarReader

_DESCRIPTORS: Final = 32
_ROOT: Final = Path(__file__).resolve().parents[4]


class Request(Struct, frozen=True):
    """An archive to unpack into the directory."""

    root: Path
    plain: bytes
    merged: bool
    limits: Limits
    constants: Mapping[str, int]
    """Values for constants of the extractor's module."""
    errors: Mapping[str, int]
    """Functions of ``os`` that fail, and the errno of their errors."""


Outcome = UnpackedLayer | BadLayer | OSError | None
"""None: the fork has ended without a result."""


class Forks:
    """The other process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def extract(self, request: Request) -> Outcome:
        """Run the extractor; what it raises is returned."""
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        outcome: Outcome = pickle.load(self._process.stdout)
        return outcome


@contextmanager
def forks() -> Iterator[Forks]:
    """Run the process while the context is open."""
    argv = [sys.executable, "-m", __name__]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, cwd=_ROOT, process_group=0) as process:
        try:
            yield Forks(process)
        finally:
            process.kill()


def _serve() -> None:
    while True:
        try:
            request: Request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.write(there, pickle.dumps(_outcome(request)))
            os._exit(0)
        os.close(there)
        with os.fdopen(here, "rb") as file:
            result = file.read()
        os.waitpid(child, 0)
        sys.stdout.buffer.write(result or pickle.dumps(None))
        sys.stdout.buffer.flush()


def _outcome(request: Request) -> Outcome:
    free = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + _DESCRIPTORS, free + _DESCRIPTORS))
    os.close(free)
    os.umask(0)
    os.chroot(request.root)
    os.chdir("/")
    for name, value in request.constants.items():
        setattr(extract, name, value)
    for name, number in request.errors.items():
        setattr(os, name, _failing(number))
    stream = ByteStream(io.BytesIO(request.plain), Limits())
    try:
        return Extractor(Account(request.limits, 0), merged=request.merged).extract(TarReader(stream, Limits()))
    except (BadLayer, OSError) as error:
        return error


def _failing(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


if __name__ == "__main__":
    # The classes that pickle names are those of the imported module, not of this one.
    from tests.unit.criserver.unpack import forks as imported

    imported._serve()
