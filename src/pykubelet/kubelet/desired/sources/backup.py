"""Copies of the last good manifests, so that one broken while the agent is down does not stop its pods.

In memory the last good version is kept anyhow; this makes it outlive a restart of the agent. Blocks.
"""

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

from pykubelet.base.atomic import write_atomic

_log = logging.getLogger(__name__)


class Backup:
    """A folder (0700) of copies, one per origin. A copy that cannot be written is only logged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, origin: str, data: bytes) -> None:
        """Keep this version."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._file(origin), data)
        except OSError as error:
            _log.warning("cannot keep a copy of a manifest", extra={"manifest": origin, "error": str(error)})

    def load(self, origin: str) -> bytes | None:
        """The version kept; None if there is none."""
        try:
            return self._file(origin).read_bytes()
        except OSError:
            return None

    def keep_only(self, origins: Iterable[str]) -> None:
        """Remove the copies of all others: their manifests are gone."""
        wanted = {self._file(origin) for origin in origins}
        try:
            for file in self._folder.iterdir():
                if file not in wanted:
                    file.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning(
                "cannot tidy the copies of manifests", extra={"folder": str(self._folder), "error": str(error)}
            )

    def _file(self, origin: str) -> Path:
        return self._folder / hashlib.sha256(origin.encode()).hexdigest()
