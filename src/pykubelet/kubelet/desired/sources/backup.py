"""Copies of the last good manifests, so that one broken while the agent is down does not stop its pods.

In memory the last good version is kept anyhow; this makes it outlive a restart of the agent. Blocks.
"""

import hashlib
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.atomic import write_atomic
from pykubelet.base.errors import Invalid
from pykubelet.base.own_files import ASIDE, make_place, read_own

_log = logging.getLogger(__name__)
_MAX_FILE: Final = 16 << 20


class Backup:
    """A directory (0700) of copies, one per origin. A copy that cannot be written is only logged."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, origin: str, data: bytes) -> None:
        """Keep this version."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_place(self._file(origin))
            write_atomic(self._file(origin), data)
        except OSError as error:
            _log.warning("cannot keep a copy of a manifest", extra={"manifest": origin, "error": str(error)})

    def load(self, origin: str) -> bytes | None:
        """The version kept; None if there is none."""
        try:
            return read_own(self._file(origin), _MAX_FILE, bytes)
        except FileNotFoundError:
            return None
        except (OSError, Invalid) as error:
            _log.warning("cannot read the copy of a manifest", extra={"manifest": origin, "error": str(error)})
            return None

    def keep_only(self, origins: Iterable[str]) -> None:
        """Remove the copies of all others: their manifests are gone."""
        wanted = {self._file(origin) for origin in origins}
        try:
            unwanted = [file for file in self._directory.iterdir() if file not in wanted and ASIDE not in file.name]
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning(
                "cannot tidy the copies of manifests", extra={"directory": str(self._directory), "error": str(error)}
            )
            return
        for file in unwanted:
            with suppress(OSError):  # a directory, or immutable: no manifest has its name
                file.unlink(missing_ok=True)

    def _file(self, origin: str) -> Path:
        return self._directory / hashlib.sha256(origin.encode()).hexdigest()
