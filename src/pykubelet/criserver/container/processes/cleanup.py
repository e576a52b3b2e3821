"""Removes what a container has on the machine: processes, cgroup, files. All methods are idempotent."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.config.host_facts import kernel_cgroup
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.runtimes import ContainerRuntime
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.types import ContainerID
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.linux.errors import raise_passing

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_START_FILES = ("pid", "conmon.pid", "oci.log", "ctl", "attach", "winsz", "oom")


class Cleanup:
    """Removal of resources of containers in any phase, also partially created ones."""

    def __init__(self, *, directories: Directories, cgroups: CgroupDriver) -> None:
        self._directories = directories
        self._cgroups = cgroups

    async def undo_start(self, container: Container, runtime: ContainerRuntime) -> None:
        """Kill and remove what a start has left; first its creator, so that it creates nothing more."""
        await runtime.end_launch(container.task(self._directories.bundles))
        await self.delete(container, runtime)
        await self._call(container, self._remove_start_files, container.id)
        container.launched = False

    async def delete(self, container: Container, runtime: ContainerRuntime) -> None:
        """Remove the cgroup, with all processes in it, and the runtime's state of a container whose first process
        ended."""
        own_cgroup = bool(container.record.cgroup) and not runtime.systemd
        if own_cgroup:
            await self._call(container, self._cgroups.delete, container.record.cgroup)
        await runtime.delete(container.task(self._directories.bundles), emptied=own_cgroup)

    async def undo_launch(self, container: Container, runtime: ContainerRuntime) -> None:
        """Undo a start before the program has run: like ``undo_start``, and the empty log is removed."""
        await self.undo_start(container, runtime)
        if container.record.log_path:
            await self._call(container, _remove_empty, Path(container.record.log_path))

    async def kill(self, container: Container) -> None:
        """Kill all its processes, and thaw them: a frozen one does not end after SIGKILL on cgroup v1."""
        await self._call(container, self._cgroups.kill, kernel_cgroup(container.record.cgroup))

    async def release_mapped_mounts(self, container: Container) -> None:
        """Unmount its mapped mounts, which would keep volumes busy that the client wants to unmount."""
        if any(mount.uidMappings for mount in container.config.mounts):
            try:
                await self._call(container, prepare.drop_mapped, self._directories.mapped / container.id)
            except (PykubeletError, OSError) as error:
                _log.warning(
                    "cannot unmount mapped volumes: they stay mounted until the container is removed",
                    extra={"container": container.id, "error": str(error)},
                )

    async def remove_files(self, container: Container) -> None:
        """Remove its bundle, exit file, mapped mounts, and the files that it would be restored from."""
        await self._call(container, self._remove_files, container.id)

    async def _call(self, container: Container, function: Callable[[_T], None], argument: _T) -> None:
        # Run to its end: the next step works on the same files.
        await blocking.call_to_end(f"container/{container.id}", function, argument)

    def _remove_files(self, container: ContainerID) -> None:
        prepare.drop_mapped(self._directories.mapped / container)
        prepare.remove_bundle(self._directories.bundle(container))
        (self._directories.exits / container).unlink(missing_ok=True)
        remove_any(str(self._directories.restores / container))

    def _remove_start_files(self, container: ContainerID) -> None:
        for name in _START_FILES:
            (self._directories.bundle(container) / name).unlink(missing_ok=True)
        (self._directories.exits / container).unlink(missing_ok=True)


def _remove_empty(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size == 0:
            log.unlink()


def noted_cgroup(bundle: Path) -> str:
    """Read the cgroup path from a container's spec; empty if it names none. Blocking.

    Transient: the spec cannot be read for now.
    """
    try:
        linux = prepare.read_bundle(bundle)["linux"]
    except (OSError, ValueError, KeyError) as error:
        raise_passing(error, str(bundle))
        return ""
    return str(linux["cgroupsPath"]) if isinstance(linux, Mapping) else ""
