"""Files of the image store that could not be used and were quarantined (set aside) for an administrator."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Permanent
from pykubelet.criserver.images.index import quarantine_of, quarantined_names

_MOST = 100
"""Largest number of reported entries of one directory."""


class QuarantinedFile(Struct, frozen=True, kw_only=True):
    """A file that could not be used and was set aside for an administrator."""

    kind: str
    id: str
    path: Path
    remedy: str

    async def check_removed(self) -> None:
        """Raise Permanent while the file exists, also if it cannot be looked up."""
        if not await blocking.call("images", _is_gone, self.path):
            raise Permanent(f"it cannot be used and is kept as {self.path}: {self.remedy}")


def _is_gone(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def find_quarantined(root: Path, index: Path, unusable: Iterable[Path]) -> Iterator[QuarantinedFile]:
    """Find what this start and earlier ones have set aside in the server's directory ``root``. Blocking.

    ``unusable``: files that could not be set aside.
    """
    for path in islice(unusable, _MOST):
        yield QuarantinedFile(
            kind="unusable file",
            id=f"{path.parent.name}/{path.name}",
            path=path,
            remedy="stop the server and check the file system (fsck), or remove the file",
        )
    for identity, name in quarantined_names(index).items():
        yield QuarantinedFile(
            kind="image", id=identity, path=quarantine_of(index), remedy=f"pull {name} again, then remove the file"
        )
    for directory in (root, root / "images", root / "images" / "blobs", root / "storage"):
        for path in islice(directory.glob("*.aside-*"), _MOST):
            yield QuarantinedFile(
                kind="set aside",
                id=f"{path.parent.name}/{path.name}",
                path=path,
                remedy="remove it, or put it where it belongs",
            )
