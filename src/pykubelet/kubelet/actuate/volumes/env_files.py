"""Reads files of environment variables out of volumes (KEP-3721)."""

import logging
import os
from pathlib import Path
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.safe_path import open_regular_in_root
from pykubelet.base.units import KIB

_log = logging.getLogger(__name__)
_MAX_ENV_FILE: Final = 64 * KIB
"""Limit of KEP-3721."""


def read_env_file(root: Path, relative: str) -> str | None:
    """Read a text file of a volume; None if it cannot be read. Blocks."""
    try:
        with os.fdopen(open_regular_in_root(root, relative), "rb") as file:
            data = file.read(_MAX_ENV_FILE + 1)
    except (PykubeletError, OSError) as error:
        _log.info("environment file of a volume not read", extra={"path": relative, "error": str(error)})
        return None
    if len(data) > _MAX_ENV_FILE:
        _log.warning("environment file of a volume too large", extra={"path": relative})
        return None
    return data.decode("utf-8", "surrogateescape")
