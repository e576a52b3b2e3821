"""Decides which root file systems a starting server removes. Pure."""

from collections.abc import Collection, Iterable

from pykubelet.criserver.types import ProtectedIds


def unused_root_filesystems(names: Iterable[str], wanted: Collection[str], protected: ProtectedIds) -> list[str]:
    """Return the names that no container has and whose ids are not protected.

    The names of mounted images begin with the id of their container.
    """
    return [name for name in names if name not in wanted and name.partition("-")[0] not in protected]
