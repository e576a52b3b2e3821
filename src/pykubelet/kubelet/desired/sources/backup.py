"""Copies of the last valid manifests, so that a manifest broken while the agent is down does not stop its pods.

The last valid version is in memory in any case; the copy survives a restart of the agent. Blocks.
"""

import hashlib
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.files.state_files import ASIDE, read_state_file, write_state_file

_log = logging.getLogger(__name__)
_MAX_FILE: Final = 16 << 20


class Backup:
    """A directory (0700) of copies, one per origin. A copy that cannot be written is only logged."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, origin: str, data: bytes) -> None:
        """Write a copy of this version."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_state_file(self._file(origin), data, _MAX_FILE)
        except (OSError, Invalid) as error:
            _log.warning("manifest backup: write failed", extra={"manifest": origin, "error": str(error)})

    def load(self, origin: str) -> bytes | None:
        """Read the copy; None if it does not exist or cannot be read."""
        try:
            return read_state_file(self._file(origin), _MAX_FILE, bytes)
        except FileNotFoundError:
            return None
        except (OSError, Invalid) as error:
            _log.warning("manifest backup: read failed", extra={"manifest": origin, "error": str(error)})
            return None

    def keep_only(self, origins: Iterable[str]) -> None:
        """Remove the copies of other manifests, which no longer exist."""
        wanted = {self._file(origin) for origin in origins}
        try:
            unwanted = [file for file in self._directory.iterdir() if file not in wanted and ASIDE not in file.name]
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning(
                "manifest backup: cleanup failed", extra={"directory": str(self._directory), "error": str(error)}
            )
            return
        for file in unwanted:
            with suppress(OSError):  # a directory or an immutable file, which no manifest uses
                file.unlink(missing_ok=True)

    def _file(self, origin: str) -> Path:
        return self._directory / hashlib.sha256(origin.encode()).hexdigest()
