"""Runs the extractor as the worker does, in a forked process whose root is the layer's directory."""

import io
import os
import pickle
import resource
import warnings
from pathlib import Path

from pykubelet.criserver.unpack.account import BLOCK, Account
from pykubelet.criserver.unpack.extract import Extractor, Written
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.stream import ByteStream
from pykubelet.criserver.unpack.tarstream import TarReader
from tests.unit.criserver.storage.test_layers import Entries, tar

ROOT = (BLOCK, 1)
"""Bytes and inodes charged for an empty layer."""


def extract(root: Path, entries: Entries | bytes, *, merged: bool = False, limits: Limits | None = None) -> Written:
    """Write the entries into the directory. With ``merged``, the files that it has are those of the layers below.

    ``limits`` are those of what is charged. As in the worker, only few descriptors may be open. Raises what the
    extractor raises.
    """
    plain = entries if isinstance(entries, bytes) else tar(entries)
    there, here = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork while other tests' threads end
        child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (here + 32, here + 32))
            os.write(here, pickle.dumps(_outcome(root, plain, merged, limits or Limits())))
            status = 0
        finally:
            os._exit(status)
    os.close(here)
    with os.fdopen(there, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the extractor's process has ended without a result"
    outcome: Written | BadLayer | OSError = pickle.loads(said)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _outcome(root: Path, plain: bytes, merged: bool, limits: Limits) -> Written | BadLayer | OSError:
    os.umask(0)
    os.chroot(root)
    os.chdir("/")
    stream = ByteStream(io.BytesIO(plain), Limits())
    try:
        return Extractor(Account(limits, 0), merged=merged).extract(TarReader(stream, Limits()))
    except (BadLayer, OSError) as error:
        return error


def charged(written: Written) -> tuple[int, int]:
    """Bytes and inodes that were charged besides those of the root."""
    return written.bytes - ROOT[0], written.inodes - ROOT[1]


def names(*each: str) -> int:
    """The bytes charged for names of ASCII characters: the directories that contain them are at least half full."""
    return sum(2 * (len(name) + 16) for name in each)


def listed(directory: Path) -> list[str]:
    """The names in a directory, sorted."""
    return sorted(path.name for path in directory.iterdir())
