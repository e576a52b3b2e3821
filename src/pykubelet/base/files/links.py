"""Symbolic links on the way to a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
"""As many as the kernel follows."""


def links_to(path: Path) -> Iterator[Path]:
    """Yield a path and, if it is a symbolic link, each path that it leads to. Blocks briefly."""
    for _ in range(_MOST_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
