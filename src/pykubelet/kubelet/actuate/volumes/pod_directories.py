"""Layout of `ROOT/pods`: the paths of a pod's files on this node, the same as in the Go kubelet.

    ROOT/pods/UID/                                      0750
        etc-hosts                                       the pod's /etc/hosts
        resources                                       allocated resources (podruntime/allocation_store.py)
        userns                                          id range of the user namespace (actuate/userns)
        containers/NAME/XXXXXXXX                        termination logs, one for each attempt
        volumes/kubernetes.io~empty-dir/VOLUME/         content of a volume
        volume-subpaths/VOLUME/CONTAINER/INDEX          bind mounts for subPath
        volumeDevices/kubernetes.io~csi/VOLUME          links to devices of CSI drivers
        plugins/                                        for volume plugins and device plugins

Names come from manifests, so each is checked to be a single safe path component.
"""

import logging
import os
import re
import secrets
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.ids import PodUID

_log = logging.getLogger(__name__)
POD_DIR_MODE: Final = 0o750
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def component(name: str) -> str:
    """Return the name if it is a safe path component. Raises Invalid otherwise."""
    if not _COMPONENT.fullmatch(name):
        raise Invalid(f"invalid path component {name!r}: use letters, digits, '-', '.' and '_'")
    return name


class PodDirs(Struct, frozen=True):
    """Paths below the agent's root directory. Only `prepare` and `termination_log` touch the disk."""

    root: Path
    """The agent's root directory, free of symbolic links, as the kernel's mount table shows it."""

    @classmethod
    def at(cls, root: str | os.PathLike[str]) -> "PodDirs":
        """Return the layout below this directory, which is created if it is missing.

        A failure is only logged, since the disk may recover: until then the volumes of pods cannot be set up.
        """
        dirs = cls(Path(os.path.realpath(root)))
        try:
            dirs.make()
        except OSError as error:
            _log.error("pods directory not created: retrying with each pod", extra={"error": str(error)})
        return dirs

    def make(self) -> None:
        """Create the directory of all pods. Raises OSError."""
        self.root.mkdir(mode=POD_DIR_MODE, parents=True, exist_ok=True)
        self.pods.mkdir(mode=POD_DIR_MODE, exist_ok=True)

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def of_volumes(self) -> "VolumeDirs":
        """The paths of the pods' volumes."""
        return VolumeDirs(self)

    def pod(self, uid: PodUID) -> Path:
        return self.pods / component(uid)

    def etc_hosts(self, uid: PodUID) -> Path:
        return self.pod(uid) / "etc-hosts"

    def resources(self, uid: PodUID) -> Path:
        return self.pod(uid) / "resources"

    def restarts(self, uid: PodUID) -> Path:
        return self.pod(uid) / "restarts"

    def user_namespace(self, uid: PodUID) -> Path:
        return self.pod(uid) / "userns"

    def container(self, uid: PodUID, container: str) -> Path:
        return self.pod(uid) / "containers" / component(container)

    def prepare(self, uid: PodUID) -> None:
        """Create the pod's directories if they are missing. Raises OSError."""
        self.make()
        for path in (self.pod(uid), self.of_volumes.all(uid), self.of_volumes.plugins(uid)):
            path.mkdir(mode=POD_DIR_MODE, parents=False, exist_ok=True)

    def termination_log(self, uid: PodUID, container: str) -> Path:
        """Create an empty termination log for one attempt of a container, writable by any user of the container."""
        directory = self.container(uid, container)
        directory.mkdir(mode=POD_DIR_MODE, parents=True, exist_ok=True)
        path = directory / secrets.token_hex(4)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(fd, 0o666)
        finally:
            os.close(fd)
        return path

    def uids(self) -> set[PodUID]:
        """List the pods that have a directory. Raises OSError."""
        with os.scandir(self.pods) as entries:
            return {PodUID(e.name) for e in entries if _COMPONENT.fullmatch(e.name) and e.is_dir(follow_symlinks=False)}


class VolumeDirs(Struct, frozen=True):
    """Paths of the volumes of pods. It never touches the disk."""

    pods: PodDirs

    def all(self, uid: PodUID) -> Path:
        """Directory of all volumes of a pod."""
        return self.pods.pod(uid) / "volumes"

    def volume(self, uid: PodUID, plugin: str, name: str) -> Path:
        """Root of a volume; `plugin` is the plugin's name, for example `kubernetes.io/empty-dir`."""
        return self.all(uid) / plugin.replace("/", "~") / component(name)

    def subpaths(self, uid: PodUID) -> Path:
        """Directory of all bind mounts for subPath of a pod."""
        return self.pods.pod(uid) / "volume-subpaths"

    def subpath(self, uid: PodUID, volume: str, container: str, index: int) -> Path:
        """Bind mount for the entry of that index in the container's `volumeMounts`."""
        return self.subpaths(uid) / component(volume) / component(container) / str(index)

    def plugins(self, uid: PodUID) -> Path:
        """Directory for volume plugins and device plugins."""
        return self.pods.pod(uid) / "plugins"
