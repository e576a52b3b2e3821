"""The registries file: read again at the start of a pull if it has changed, so that a change needs no restart."""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.decoding import convert
from pykubelet.criserver.config.field_errors import field_error
from pykubelet.criserver.config.load import read_document
from pykubelet.criserver.config.settings import RegistryHost

_log = logging.getLogger(__name__)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    registries: dict[str, RegistryHost] = field(default_factory=dict)


class _Version(Struct, frozen=True):
    """One version of the file: what it says, or why it cannot be used."""

    stamp: tuple[int, int, int] | None
    found: Mapping[str, RegistryHost] | None
    """The hosts of the last valid version; None: there was none yet."""
    error: str = ""


class RegistryTable:
    """The registry hosts: those of the settings, overridden by those of the file.

    If a new version of the file is invalid, the last valid one stays in force, and the log names the error once.
    """

    def __init__(self, file: Path, fixed: Mapping[str, RegistryHost]) -> None:
        self._file = file
        self._fixed = dict(fixed)
        self._version = _Version(None, None)

    def configure(self, file: Path, fixed: Mapping[str, RegistryHost]) -> None:
        """Use another file, or other hosts of the settings, from now on."""
        if file != self._file:
            self._version = _Version(None, None)
        self._file, self._fixed = file, dict(fixed)

    def hosts(self) -> Mapping[str, RegistryHost]:
        """The present configuration of hosts. Blocks briefly.

        Raises Invalid, which names the file and the cause, if no version of the file was valid since the start.
        """
        version = self._version = self._read(self._version)
        if version.found is None:
            raise Invalid(version.error)
        return self._fixed | dict(version.found)

    def problem(self) -> str:
        """The reason why the present version of the file is not in force; empty if it is. Blocks briefly."""
        self._version = self._read(self._version)
        return self._version.error

    def _read(self, last: _Version) -> _Version:
        try:
            facts = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return _Version(None, {})
        except OSError as error:
            return self._refuse(last, None, f"{self._file}: cannot be read: {error.strerror}")
        stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        if stamp == last.stamp:
            return last
        try:
            found = convert(read_document(self._file), _File).registries
        except msgspec.ValidationError as error:
            return self._refuse(last, stamp, str(field_error(error, _File, self._file)))
        except Invalid as error:
            return self._refuse(last, stamp, str(error))
        except Transient as error:
            return self._refuse(last, None, str(error))  # without its stamp: it is read again
        if last.stamp is not None or last.error:
            _log.info("registries reloaded", extra={"file": str(self._file), "registries": ", ".join(sorted(found))})
        return _Version(stamp, found)

    def _refuse(self, last: _Version, stamp: tuple[int, int, int] | None, error: str) -> _Version:
        if error != last.error:
            in_force = "none" if last.found is None else "the former version"
            _log.error("registries file refused", extra={"error": error, "in_force": in_force})
        return _Version(stamp, last.found, error)
