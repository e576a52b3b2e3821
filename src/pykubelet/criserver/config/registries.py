"""The registries file: read again at the start of a pull if it has changed, so that a change needs no restart."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.criserver.config.field_errors import field_error
from pykubelet.criserver.config.load import read_document
from pykubelet.criserver.config.settings import RegistryHost


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    registries: dict[str, RegistryHost] = field(default_factory=dict)


class RegistryTable:
    """The registry hosts: those of the settings, overridden by those of the file."""

    def __init__(self, file: Path, fixed: Mapping[str, RegistryHost]) -> None:
        self._file = file
        self._fixed = dict(fixed)
        self._seen: tuple[int, int, int] | None = None
        self._found: Mapping[str, RegistryHost] = {}

    def hosts(self) -> Mapping[str, RegistryHost]:
        """The present configuration of hosts. Blocks briefly. Raises Invalid, which names the file and the cause."""
        try:
            facts = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._found = None, {}
            return self._fixed
        except OSError as error:
            raise Invalid(f"{self._file}: cannot be read: {error.strerror}") from error
        seen = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        if seen != self._seen:
            try:
                self._found = msgspec.convert(read_document(self._file), _File).registries
            except msgspec.ValidationError as error:
                raise field_error(error, _File, self._file) from error
            self._seen = seen
        return self._fixed | dict(self._found)
