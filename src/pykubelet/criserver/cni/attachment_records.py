"""The records of attachments on disk: one file for each sandbox that is, or may be, attached to a network."""

import os
from pathlib import Path

import msgspec

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid
from pykubelet.base.files.atomic import remove_temporary_files, write_atomic
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.cni.network_types import Attachment
from pykubelet.criserver.directories import make_directory, set_aside_obstacle
from pykubelet.criserver.types import SandboxID
from pykubelet.linux.errors import raise_passing, wrap
from pykubelet.linux.namespaces import is_namespace

_attachment = msgspec.json.Decoder(Attachment)
_LONGEST = 4 * MIB
"""Size limit of a record in bytes."""
_SUFFIX = ".json"


class AttachmentRecords:
    """The attachments of sandboxes, from before ADD until after DEL. The directory must be on a disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def prepare(self) -> None:
        """Create the directory, and remove what an interrupted write has left. Blocking."""
        make_directory(self._directory)
        remove_temporary_files(self._directory)

    def held(self) -> list[SandboxID]:
        """The sandboxes with a record; none before `prepare`. Raises the errors of ``base.errors``.

        An error must not look like an empty directory: addresses of running pods would be released.
        """
        try:
            names = sorted(path.name for path in self._directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise wrap(error, f"the attachments in {self._directory} cannot be listed") from error
        return [SandboxID(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX) and name[0] != "."]

    async def remember(self, attachment: Attachment) -> None:
        """Write a record. Raises Invalid, before anything is written, if it is longer than a record may be."""
        data, sandbox = msgspec.json.encode(attachment), attachment.request.sandbox
        if len(data) > _LONGEST:
            raise Invalid(
                f"the attachment of sandbox {sandbox} takes {len(data)} bytes with the pod's annotations and the "
                f"plugins' result; at most {_LONGEST} can be stored"
            )
        await blocking.call_to_end(f"sandbox/{sandbox}", _write, self._file(sandbox), data)

    async def load(self, sandbox: SandboxID) -> Attachment | None:
        """Read a record; None if it does not exist. Invalid: it is damaged. Transient: it cannot be read for now."""
        return await blocking.call(f"sandbox/{sandbox}", self.read, sandbox)

    async def load_to_forget(self, sandbox: SandboxID) -> tuple[Attachment, str] | None:
        """Read a record before its address is released: like `load`, but an error on a read-only file system.

        Returns the path of the network namespace as well; empty if none is pinned there any more.

        host-local reports success although it cannot remove an address there. If the file system were writable again a
        moment later, the attachment would be forgotten, and the address never released.
        """

        def load() -> tuple[Attachment, str] | None:
            self._touch()
            found = self.read(sandbox)
            return None if found is None else (found, pinned(found.request.netns))

        return await blocking.call_to_end(f"sandbox/{sandbox}", load)

    def _touch(self) -> None:
        try:
            os.utime(self._directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise wrap(error, f"the attachments in {self._directory} cannot be changed") from error

    def read(self, sandbox: SandboxID) -> Attachment | None:
        """Read a record like `load`. Blocks."""
        file = self._file(sandbox)
        try:
            return _attachment.decode(read_regular(file, _LONGEST))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise_passing(error, str(file))
            raise Invalid(f"{file} is damaged: {error}") from error

    async def forget(self, sandbox: SandboxID) -> None:
        """Remove a record. Idempotent."""
        await blocking.call_to_end(f"sandbox/{sandbox}", _remove, self._file(sandbox))

    def _file(self, sandbox: SandboxID) -> Path:
        return self._directory / f"{sandbox}{_SUFFIX}"


def pinned(netns: str) -> str:
    """The path of a network namespace; empty if none is pinned there. Blocks.

    A file without its mount (after a reboot, for example) would make plugins fail.
    """
    return netns if is_namespace(netns) else ""


def _write(file: Path, data: bytes) -> None:
    set_aside_obstacle(file)
    write_atomic(file, data)


def _remove(file: Path) -> None:
    set_aside_obstacle(file)
    file.unlink(missing_ok=True)
