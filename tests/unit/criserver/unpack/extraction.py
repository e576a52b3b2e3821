"""Runs the extractor as the worker does, in a forked process whose root is the layer's directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pykubelet.criserver.unpack.account import BLOCK
from pykubelet.criserver.unpack.extract import UnpackedLayer
from pykubelet.criserver.unpack.limits import Limits
from tests.unit.criserver.storage.world import Entries, tar
from tests.unit.criserver.unpack.forks import Forks, Request

ROOT = (BLOCK, 1)
"""Bytes and inodes charged for an empty layer."""
RUNNING: Final[list[Forks]] = []
"""The process that forks, while tests of this directory run."""


def extract(
    root: Path,
    entries: Entries | bytes,
    *,
    merged: bool = False,
    limits: Limits | None = None,
    constants: Mapping[str, int] | None = None,
    errors: Mapping[str, int] | None = None,
) -> UnpackedLayer:
    """Write the entries into the directory. With ``merged``, the files that it has are those of the layers below.

    ``limits`` are those of what is charged. As in the worker, only few descriptors may be open. ``constants``
    and ``errors`` are explained at ``Request``. Raises what the extractor raises.
    """
    plain = entries if isinstance(entries, bytes) else tar(entries)
    outcome = RUNNING[0].extract(Request(root, plain, merged, limits or Limits(), constants or {}, errors or {}))
    assert outcome is not None, "the extractor's process has ended without a result"
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def charged(written: UnpackedLayer) -> tuple[int, int]:
    """Bytes and inodes that were charged besides those of the root."""
    return written.bytes - ROOT[0], written.inodes - ROOT[1]


def names(*each: str) -> int:
    """The bytes charged for names of ASCII characters: the directories that contain them are at least half full."""
    return sum(2 * (len(name) + 16) for name in each)


def listed(directory: Path) -> list[str]:
    """The names in a directory, sorted."""
    return sorted(path.name for path in directory.iterdir())
