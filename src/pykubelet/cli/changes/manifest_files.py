# ruff: noqa: PTH112, PTH118, PTH208 - pathlib takes longer to import than a file to read
"""Reads the texts of the manifests that a command is given: files, directories, the standard input."""

import os
import sys
from collections.abc import Iterable
from typing import Final

from pykubelet.base.errors import Invalid, NotFound, Permanent, Transient
from pykubelet.base.files.regular_file import is_plain_name, read_regular
from pykubelet.base.text import printable

STDIN: Final = "-"
"""The argument that means the standard input."""
STDIN_NAME: Final = "<stdin>"
"""The name of the standard input in messages, in place of a file's."""
_MOST: Final = 10 * 1024 * 1024 + 1
"""Bytes to read of a manifest: one more than the parser takes, so that it detects a text that is too large."""


def read_texts(files: Iterable[str | os.PathLike[str]]) -> list[tuple[str, bytes]]:
    """Return origin and text of each manifest. Permanent: a file cannot be read."""
    return [text for file in files for text in _texts_of(os.fspath(file))]


def _texts_of(file: str) -> list[tuple[str, bytes]]:
    if file == STDIN:
        return [(STDIN_NAME, sys.stdin.buffer.read(_MOST))]
    paths = [file]
    try:
        if os.path.isdir(file):
            paths = [path for path in _paths_in(file) if not os.path.isdir(path)]
        return [(path, read_regular(path, _MOST)) for path in paths]
    except OSError as error:
        raise Permanent(f"{printable(file)}: cannot be read: {error.strerror}") from error
    except (NotFound, Invalid, Transient) as error:
        raise Permanent(f"{printable(file)}: {error}") from error


def _paths_in(directory: str) -> list[str]:
    return sorted(os.path.join(directory, name) for name in os.listdir(directory) if is_plain_name(name))
