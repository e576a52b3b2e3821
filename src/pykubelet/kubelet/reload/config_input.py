"""The files of the configuration, as the running agent reads them again."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from msgspec import Struct, field

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.kubelet.config import KubeletConfiguration
from pykubelet.kubelet.config.load import configuration_files, located

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""Names, devices, inodes, sizes and modification times of the files; a missing file has zeros."""

MISSING: Final[Stamp] = (("", 0, 0, 0, 0),)
"""The drop-in directory does not exist."""


class ConfigInput(Struct, frozen=True, kw_only=True):
    """Source of the configuration, and the function that reads it."""

    read: Callable[[], KubeletConfiguration]
    """Reads the files and lays the flags over them; Invalid: they cannot be used. Blocks."""
    started: KubeletConfiguration
    """The configuration that was read at the start."""
    stamp: Stamp
    """The stamp of the files before that read."""
    file: Path | None = None
    directory: Path | None = None
    """The directory of drop-in files."""
    set_up_log: Callable[[KubeletConfiguration], None]
    """Gives level and format of a new configuration to the log."""
    requested: Callbacks[[]] = field(default_factory=Callbacks)
    """Calls: SIGHUP has come."""
    notifier: Notifier = field(default_factory=lambda: Notifier(""))

    @classmethod
    def fixed(cls, config: KubeletConfiguration) -> Self:
        """Return the input of an agent without files."""
        return cls(read=lambda: config, started=config, stamp=(), set_up_log=lambda _: None)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.file, self.directory) if path is not None)

    def read_whole(self) -> tuple[KubeletConfiguration, Stamp]:
        """Read the files; return their stamp, too. Transient: they have changed meanwhile, or as `read`. Blocks."""
        before = stamp_of(self.file, self.directory)
        changed = Transient("the configuration has changed while it was read; it is read again")
        try:
            config = self.read()
        except Invalid as error:
            if stamp_of(self.file, self.directory) != before:  # such as a file that was removed after it was listed
                raise changed from error
            raise
        if stamp_of(self.file, self.directory) != before:
            raise changed
        return config, before

    def located(self, error: Invalid) -> Invalid:
        """Return the error with the place of its field in the files. Blocks."""
        return located(error, self.file, self.directory)

    def stamp_now(self) -> Stamp:
        """Return the stamp of the files. Blocks."""
        return stamp_of(self.file, self.directory)


def stamp_of(file: Path | None, directory: Path | None) -> Stamp:
    """Return the stamp of the configuration's files; it changes whenever one of them does."""
    try:
        return tuple(_stamp(path) for path in configuration_files(file, directory))
    except (PykubeletError, OSError):
        return MISSING


def _stamp(path: Path) -> tuple[str, int, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (str(path), 0, 0, 0, 0)
    return (str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
