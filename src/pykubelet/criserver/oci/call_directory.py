"""The directory with the files of one call of an OCI runtime: its log, and what it is given."""

import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient

_MODE: Final = 0o700


@asynccontextmanager
async def call_directory(owner: str, parent: Path, prefix: str, files: Mapping[str, str]) -> AsyncIterator[Path]:
    """Make a directory with files (name and content) below ``parent``, and remove it at the end, also if cancelled.

    ``owner``: that of the blocking calls, which may hang on the directory's disk. Raises Transient or OSError if the
    directory cannot be made. One that cannot be removed is left to the next server's start.
    """
    directory = parent / f"{prefix}{secrets.token_hex(8)}"
    try:
        await blocking.call_to_end(owner, _make, directory, files)
        yield directory
    finally:
        with suppress(Transient):
            await blocking.call_to_end(owner, shutil.rmtree, directory, True)


def _make(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(_MODE)
    for name, content in files.items():
        (directory / name).write_text(content)
