"""The files of a shim's tasks: one directory for each, which is the task's bundle for the shim. Blocking.

A sandbox's directory also has the address of its shim. Marks say how far a start and an end have come, so that the next
server neither runs a program twice nor forgets an exit code.
"""

import shutil
import stat
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.criserver.conmon import Exit
from pykubelet.criserver.shim.shim_program import Bootstrap
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.errors import raise_passing, wrap
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.linux.filesystems.removal import remove_tree

_LIMIT: Final = 1 << 16
_UNIX: Final = "unix://"
_SHIM, _EXIT, _EXECS = "pykubelet-shim.json", "pykubelet-exit.json", "execs"


class Mark(StrEnum):
    """Progress that a task may have made; the values are names of files."""

    CREATED = "pykubelet-created"
    """The shim may have, or have had, the task."""
    STARTED = "pykubelet-started"
    """The program may have run."""


class ShimNote(msgspec.Struct, frozen=True):
    """The shim of a sandbox."""

    bootstrap: Bootstrap
    process: ProcessRef | None
    """None: the shim did not tell its PID."""


class TaskFiles:
    """The directory of one task."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def exist(self) -> bool:
        """Whether the directory exists."""
        return self.directory.is_dir()

    def make(self, bundle: Path) -> None:
        """Create the directory with the specification of a container's bundle. Idempotent."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(bundle / "config.json", self.directory / "config.json")
        # A file, not a FIFO: shims then start and log while no server reads.
        (self.directory / "log").touch()

    def note_shim(self, note: ShimNote) -> None:
        """Store the shim's address."""
        write_atomic(self.directory / _SHIM, msgspec.json.encode(note))

    def shim(self) -> ShimNote | None:
        """Read the shim's address; None: it was not started, or the server was killed meanwhile. Transient."""
        try:
            return decode_json(read_regular(self.directory / _SHIM, _LIMIT), ShimNote)
        except (OSError, ValueError, RecursionError) as error:
            raise_passing(error, str(self.directory))
            return None

    def remove_socket(self) -> None:
        """Remove the shim's socket, whose path the shim itself has noted; nothing else that it names. Idempotent."""
        # It is a leftover of no consequence, so what cannot be read or removed must not keep the sandbox.
        with suppress(OSError, ValueError):
            noted = read_regular(self.directory / "address", _LIMIT).decode().removeprefix(_UNIX)
            path = Path(noted)
            if path.is_absolute() and stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()

    def mark(self, mark: Mark) -> None:
        """Set a mark, before the step that it stands for."""
        (self.directory / mark).touch()

    def has(self, mark: Mark) -> bool:
        """Whether a mark is set."""
        return (self.directory / mark).exists()

    def note_exit(self, ended: Exit) -> None:
        """Store the exit; afterwards the shim may forget it."""
        write_atomic(self.directory / _EXIT, msgspec.json.encode(ended))

    def exit(self) -> Exit | None:
        """Read the stored exit; None: none is stored. Transient: it cannot be read for now."""
        try:
            return decode_json(read_regular(self.directory / _EXIT, _LIMIT), Exit)
        except (OSError, ValueError, RecursionError) as error:
            raise_passing(error, str(self.directory))
            return None

    @property
    def execs(self) -> Path:
        """The directory with one directory for each command that runs in the container."""
        return self.directory / _EXECS

    def running_execs(self) -> list[str]:
        """The ids of commands whose files exist."""
        with suppress(OSError):
            return [each.name for each in self.execs.iterdir()]
        return []

    def remove(self) -> None:
        """Remove the directory. Idempotent. Errors of ``linux.errors.wrap``; Conflict: something stays mounted in it.

        It is renamed first: the shim's program cannot remove a task of which only some files are left. What a shim that
        has died has left mounted there is unmounted, never deleted.
        """
        removed = self.directory.with_name(f".removed-{self.directory.name}")
        try:
            _remove(removed)  # that of an interrupted removal
            with suppress(FileNotFoundError):
                self.directory.rename(removed)
                _remove(removed)
        except OSError as error:
            raise wrap(error, f"cannot remove {self.directory}") from error


def _remove(directory: Path) -> None:
    unmount_all_under(str(directory), lazy=True)
    remove_tree(directory)
