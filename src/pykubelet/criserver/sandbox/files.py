"""The files of a sandbox that are mounted into its containers: resolv.conf, hosts, hostname, and /dev/shm. Blocking.

Containers may write to them, as with other runtimes, unless their root is read-only. So they are in small tmpfs mounts
of the sandbox: writes are bounded, charged to the memory of the writer, and use no space of the node's /run.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.units import MIB, Bytes
from pykubelet.criserver.sandbox.plan.requests import namespace_options, resolv_conf
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.types import IdMap
from pykubelet.linux.errors import raise_passing
from pykubelet.linux.filesystems.mounts import tmpfs, unmount_all_under
from pykubelet.pb import runtime_v1_pb2 as pb

RESOLV_CONF: Final = "resolv.conf"
HOSTS: Final = "hosts"
HOSTNAME: Final = "hostname"
_SHM_SIZE = Bytes(64 * MIB)
_FILES_SIZE = Bytes(1 * MIB)
"""Size for resolv.conf, hosts and hostname together, with space for additions by containers."""
_MAX_FILE = 256 << 10


class SandboxFiles(Struct, frozen=True):
    """The files of one sandbox."""

    directory: Path

    @property
    def shm(self) -> Path:
        return self.directory / "shm"

    def etc(self) -> Path:
        """Look up the directory that has RESOLV_CONF, HOSTS and HOSTNAME."""
        bounded = self.directory / "etc"
        # Earlier versions wrote the files to the directory itself.
        return bounded if bounded.is_dir() else self.directory

    def make_directory(self, ids: IdMap | None) -> None:
        """Create the directory, accessible to root and to the root user of the pod's own user namespace only."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if ids is not None:
            os.chown(self.directory, 0, ids.gid)
            self.directory.chmod(0o710)

    def make(self, config: pb.PodSandboxConfig, hostname: str, ids: IdMap | None) -> None:
        """Create the directory unless it exists, write the files, and mount the shared memory unless the pod uses the
        node's.

        Invalid: the DNS configuration is larger than 256 KiB.
        """
        resolver = resolv_conf(config.dns_config, _read("/etc/resolv.conf"))
        if len(resolver.encode()) > _MAX_FILE:
            raise Invalid(f"the DNS configuration takes more than {_MAX_FILE >> 10} KiB")
        self.make_directory(ids)
        bounded = self.directory / "etc"
        bounded.mkdir(mode=0o755, exist_ok=True)
        tmpfs(str(bounded), size=_FILES_SIZE, mode=0o755)
        (bounded / RESOLV_CONF).write_text(resolver)
        (bounded / HOSTS).write_text(_read("/etc/hosts"))
        (bounded / HOSTNAME).write_text(f"{hostname}\n")
        if namespace_options(config).ipc != pb.NODE:
            self.shm.mkdir(mode=0o1777, exist_ok=True)
            tmpfs(str(self.shm), size=_SHM_SIZE, mode=0o1777)

    def unmount(self) -> None:
        """Unmount the file systems; no error if they are not mounted."""
        with suppress(NotFound):
            unmount_all_under(str(self.directory), lazy=True)

    def remove(self, *, mounted: bool = True) -> None:
        """Remove all files; no error if missing. ``mounted``: file systems may still be mounted."""
        if mounted:
            self.unmount()
        remove_any(str(self.directory))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        raise_passing(error, path)  # otherwise the pod would never resolve a name
        return ""
