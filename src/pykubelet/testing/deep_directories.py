"""Directories below each other, more than Python may recurse or a path may name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pykubelet.testing.traces import remove_files

NAME = "a"
"""The name of each directory."""


def path_of(depth: int) -> str:
    """The relative path of a directory of that depth."""
    return "/".join([NAME] * depth)


def make_deep(top: Path, depth: int) -> None:
    """Create directories below an existing one."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=fd)
        below = os.open(NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


def depth_of(top: Path) -> int:
    """The number of directories below each other."""
    fd, depth = os.open(top, os.O_RDONLY | os.O_DIRECTORY), 0
    try:
        while True:
            below = os.open(NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd, depth = below, depth + 1
    except FileNotFoundError:
        return depth
    finally:
        os.close(fd)


@contextmanager
def place_for_deep_ones(directory: Path) -> Iterator[Path]:
    """Yield a new directory in that one; it is removed at the end, which pytest could not do."""
    place = directory / "deep"
    place.mkdir()
    try:
        yield place
    finally:
        remove_files(place)
