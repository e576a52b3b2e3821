"""The length of paths that go to the kernel as a whole, such as those of mounts, and NUL in them. Pure."""

from typing import Final

from pykubelet.base.errors import Invalid

LONGEST: Final = 4095
"""Bytes of a path in one system call: PATH_MAX without its null byte."""
SHOWN: Final = 80
"""Characters of a path of any length in an error."""


def check_length(path: str, what: str) -> None:
    """Raise Invalid for a path that the kernel does not take; ``what`` names the field that has it."""
    if "\0" in path:
        raise Invalid(f"{what} contains NUL, and the kernel takes no such path: {path[:SHOWN]!r}")
    size = len(path.encode(errors="surrogateescape"))
    if size > LONGEST:
        raise Invalid(f"{what} has {size} bytes, and the kernel takes no path of more than {LONGEST}: {path[:SHOWN]}…")
