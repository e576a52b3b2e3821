"""Decides which root file systems a starting server removes. Pure."""

from collections.abc import Collection, Container, Iterable


def unused_root_filesystems(names: Iterable[str], wanted: Collection[str], protected: Container[str]) -> list[str]:
    """Those that no container has, and none of the ``protected`` ids.

    The names of mounted images begin with the id of their container.
    """
    return [name for name in names if name not in wanted and name.partition("-")[0] not in protected]
