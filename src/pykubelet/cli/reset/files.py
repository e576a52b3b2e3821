"""Cgroups, mounts and files."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pykubelet.base.errors import Conflict, NotFound, Permanent
from pykubelet.cli.client.agent_socket import link_of
from pykubelet.cli.reset.places import Places
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle, cri_parent, root_name, to_path, uid_of
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups.files import CgroupFiles, below
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems import removal
from pykubelet.linux.filesystems.mountinfo import mounts_below
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.linux.systemd import Systemd
from pykubelet.linux.transient_units import Units, systemd_is_running

_MOST_NAMED = 5
_POD_SLICE = re.compile(r"\bkubepods(?:-burstable|-besteffort)?-pod([^-/]+)\.slice$")
_IMAGE_ENTRIES = ("images", "storage")
"""Entries of the server's root with images and their unpacked layers."""


class CgroupsPart:
    """The cgroups of pods, of either driver, and the processes that are still in them."""

    def __init__(self, places: Places, units: Units | None = None) -> None:
        """``units``: systemd, which has a unit for each cgroup of its driver; default: that of this machine, if any."""
        self._root = places.cgroup_root.strip("/")
        self._pods = places.root / "pods"
        name = root_name(places.cgroup_root)
        self._paths = [to_path(name, style) for style in NameStyle]
        self._slice = cri_parent(name, NameStyle.SYSTEMD)
        self._units = units or (Systemd() if systemd_is_running() else None)

    def find(self) -> Sequence[str]:
        return [f"cgroup: {path}" for path in self._roots()]

    def remove(self) -> None:
        """Conflict: processes of pods that are not this agent's are in the cgroups; then all of these stay.

        Pods that the runtime server knew have ended before; what may still run has a directory of this agent.
        """
        if others := self._pods_of_others():
            raise Conflict(
                f"cgroups of pods that are not of this agent have processes: {', '.join(others[:_MOST_NAMED])}; "
                "if another kubelet of this machine runs them, leave them to it, or else end them by hand"
            )
        CgroupFiles().delete_trees(self._roots())
        if self._units is not None:
            # The units stay active without their cgroups. With this one, systemd stops those below it.
            with suppress(NotFound):
                self._units.stop(self._slice)
            CgroupFiles().delete_trees(self._roots())
        if self._root:
            for hierarchy in self._hierarchies():
                with suppress(OSError):  # cgroups of others are in it, or it does not exist
                    below(hierarchy, f"/{self._root}").rmdir()

    def _pods_of_others(self) -> list[str]:
        """Return the uids of pods with processes that have no directory of this agent."""
        files, found = CgroupFiles(), set()
        tops = [top / name for top in self._roots() for name in files.subdirectories(top)]
        # Of a QoS class; what is deeper belongs to the pod.
        for path in (*tops, *(top / name for top in tops for name in files.subdirectories(top))):
            uid = pod_of(path.name)
            if uid and not (self._pods / uid).is_dir() and files.processes(files.tree(path)):
                found.add(uid)
        return sorted(found)

    def _roots(self) -> list[Path]:
        paths = [below(top, path) for top in self._hierarchies() for path in self._paths]
        return sorted({path for path in paths if path.is_dir()})

    @staticmethod
    def _hierarchies() -> set[Path]:
        layout = cgroups.detect()
        return {*layout.controllers.values(), *([layout.unified] if layout.unified else [])}


def pod_of(name: str) -> str:
    """Return the uid of the pod whose cgroup has this name, of either driver; empty: it is no cgroup of a pod."""
    slice_ = _POD_SLICE.search(name)
    if slice_ is not None:
        return slice_[1].replace("_", "-")
    return uid_of(name) or ""


class MountsPart:
    """All mounts at and below the directories of the daemons."""

    def __init__(self, places: Places) -> None:
        self._directories = _directories(places)

    def find(self) -> Sequence[str]:
        found = {mount.path: None for path in self._directories for mount in mounts_below(str(path))}
        return [f"mount: {path}" for path in found]

    def remove(self) -> None:
        for path in self._directories:
            unmount_all_under(str(path), lazy=True)


class PodLogsPart:
    """The logs of the agent's pods. Their directories may be shared with other kubelets: only these pods' logs go."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._noted: set[str] = set()

    def note(self, directory: str) -> None:
        """Record the directory of a pod that was removed just now."""
        self._noted.add(directory)

    def find(self) -> Sequence[str]:
        return [f"log: {path}" for path in (*self._logs(), *self._links())]

    def remove(self) -> None:
        logs, links = self._logs(), list(self._links())
        for path in links:
            path.unlink(missing_ok=True)
        for path in logs:
            _remove_tree(path)
        for directory in (self._places.pod_logs, self._places.container_logs):
            with suppress(OSError):  # not empty: others use it
                directory.rmdir()

    def _logs(self) -> list[Path]:
        uids = {path.name for path in _entries(self._places.root / "pods")}
        return [
            path
            for path in _entries(self._places.pod_logs)
            if path.name in self._noted or path.name.rpartition("_")[2] in uids
        ]

    def _links(self) -> Iterator[Path]:
        logs = set(self._logs())
        for link in _entries(self._places.container_logs):
            with suppress(OSError):
                if link.is_symlink() and link.readlink().parent.parent in logs:
                    yield link


class FilesPart:
    """The directories of the daemons, and the network configuration that the server has written."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._link = link_of(places.socket)

    def find(self) -> Sequence[str]:
        return [f"file: {path}" for path in self._paths()]

    def remove(self) -> None:
        places = self._places
        for directory in _directories(places):
            left = mounts_below(str(directory))
            if left:
                # Files of a volume must not be removed through a mount.
                raise Permanent(f"{left[0].path} is still mounted; nothing below {directory} was removed")
        for path in self._paths():
            if path.is_dir() and not path.is_symlink():
                _remove_tree(path)
            else:
                path.unlink(missing_ok=True)
        links = () if self._link is None else (self._link.parent,)
        for directory in (*_directories(places), places.network_file.parent, *links):
            with suppress(OSError):  # not empty: images are kept, or others use it
                directory.rmdir()

    def _paths(self) -> list[Path]:
        places = self._places
        server = [
            path for path in _entries(places.server.root) if not (places.keep_images and path.name in _IMAGE_ENTRIES)
        ]
        agent = [path for path in _entries(places.root) if path not in (places.server.root, places.run)]
        run = [path for path in _entries(places.run) if path != places.server.run]
        own = [places.network_file] if places.networks() else []
        if places.server.socket.is_socket():
            own.append(places.server.socket)  # it may be elsewhere
        if self._link is not None and self._link.is_symlink():
            run.append(self._link)  # the agent was killed
        return sorted({*agent, *run, *(() if places.endpoint else (*server, *_entries(places.server.run), *own))})


def _directories(places: Places) -> tuple[Path, ...]:
    """Return the directories of the daemons; a directory comes before the one that it is in."""
    server = () if places.endpoint else (places.server.root, places.server.run)
    return tuple(sorted({*server, places.root, places.run}, key=lambda path: (-len(path.parts), str(path))))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise wrap(error, f"cannot list {directory}") from error


def _remove_tree(path: Path) -> None:
    """Remove a tree that containers have written: links are not followed, mounts not entered, any depth is possible."""
    try:
        removal.remove_tree(path)
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
