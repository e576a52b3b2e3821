"""Directories for the temporary files of tests that other programs run."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A directory that is removed with all that tests leave in it; what cannot be removed stays.

    Not ``tempfile.TemporaryDirectory``: tests make trees that are deeper than Python's stack. Mounts are not emptied.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield directory
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", "--", directory], stderr=subprocess.DEVNULL, check=False)
