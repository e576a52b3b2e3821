"""The files of a sandbox that its containers get mounted: resolv.conf, hosts, hostname, and /dev/shm. Blocking."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.base.units import MIB, Bytes
from pykubelet.criserver.sandbox.decide import namespace_options, resolv_conf
from pykubelet.criserver.types import IdMap
from pykubelet.linux.mounts import tmpfs, unmount_all_under
from pykubelet.pb import runtime_v1_pb2 as pb

_SHM_SIZE = Bytes(64 * MIB)
_MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class SandboxFiles:
    """Where one sandbox's files lie."""

    folder: Path

    @property
    def resolv_conf(self) -> Path:
        return self.folder / "resolv.conf"

    @property
    def hosts(self) -> Path:
        return self.folder / "hosts"

    @property
    def hostname(self) -> Path:
        return self.folder / "hostname"

    @property
    def shm(self) -> Path:
        return self.folder / "shm"

    def make_folder(self, ids: IdMap | None) -> None:
        """Make the folder: for root only, and for the root of the pod's own user namespace."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if ids is not None:
            os.chown(self.folder, 0, ids.gid)
            self.folder.chmod(0o710)

    def make(self, config: pb.PodSandboxConfig, hostname: str) -> None:
        """Write the files, and mount the shared memory unless the pod uses the node's. The folder must be there."""
        self.resolv_conf.write_text(resolv_conf(config.dns_config, _read("/etc/resolv.conf")))
        self.hosts.write_text(_read("/etc/hosts"))
        self.hostname.write_text(f"{hostname}\n")
        if namespace_options(config).ipc != pb.NODE:
            self.shm.mkdir(mode=0o1777, exist_ok=True)
            tmpfs(str(self.shm), size=_SHM_SIZE, mode=0o1777)

    def unmount(self) -> None:
        """Take the shared memory away; done is done."""
        with suppress(NotFound):
            unmount_all_under(str(self.folder), lazy=True)

    def remove(self, *, mounted: bool = True) -> None:
        """Remove everything; done is done. ``mounted``: something may still be."""
        if mounted:
            self.unmount()
        if os.path.lexists(self.folder):
            shutil.rmtree(self.folder)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_FILE)
    except OSError:
        return ""
