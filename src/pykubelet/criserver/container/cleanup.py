"""Takes away what a container has on the machine: processes, cgroup, files. Everything here can be repeated."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.container import prepare
from pykubelet.criserver.container.ports import Folders
from pykubelet.criserver.container.processes import kill_group, noted_monitor
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.types import ContainerID
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_START_FILES = ("pid", "conmon.pid", "oci.log", "ctl", "attach", "winsz", "oom")


class Cleanup:
    """For containers in any state, also half-made ones."""

    def __init__(self, folders: Folders, cgroups: CgroupDriver) -> None:
        self._folders = folders
        self._cgroups = cgroups

    async def undo_start(self, container: Container, runtime: OciRuntime) -> None:
        """Kill and remove what a start has left, the monitor first, so that it makes nothing more."""
        record, bundle = container.record, self._folders.bundles / container.id
        monitor = open_process(record.monitor) or open_process(noted_monitor(bundle, container.id))
        if monitor is not None:
            with monitor:
                await kill_group(monitor)
        await self.delete(container, runtime)
        await asyncio.to_thread(self._remove_start_files, container.id)

    async def delete(self, container: Container, runtime: OciRuntime) -> None:
        """Remove the cgroup of one whose first process has ended, with whatever runs in it, and the runtime's state."""
        ours = bool(container.record.cgroup) and not runtime.systemd
        if ours:
            await asyncio.to_thread(self._cgroups.delete, container.record.cgroup)
        # Hooks of devices are the OCI runtime's to run.
        await runtime.delete(container.id, emptied=ours and not container.config.CDI_devices)

    async def undo_launch(self, container: Container, runtime: OciRuntime) -> None:
        """The same for a container whose program has not run: there is nothing in its log."""
        await self.undo_start(container, runtime)
        if container.record.log_path:
            await asyncio.to_thread(_remove_empty, Path(container.record.log_path))

    async def let_volumes_go(self, container: Container) -> None:
        """Drop its mapped mounts, which would keep volumes busy that its client wants to unmount."""
        if any(mount.uidMappings for mount in container.config.mounts):
            try:
                await asyncio.to_thread(prepare.drop_mapped, self._folders.mapped / container.id)
            except PykubeletError as error:
                _log.warning(
                    "a volume is still mounted until its container is removed",
                    extra={"container": container.id, "error": str(error)},
                )

    async def remove_files(self, container: ContainerID) -> None:
        """Remove its bundle, exit file and mapped mounts."""
        await asyncio.to_thread(self._remove_files, container)

    def _remove_files(self, container: ContainerID) -> None:
        prepare.drop_mapped(self._folders.mapped / container)
        prepare.remove_bundle(self._folders.bundles / container)
        (self._folders.exits / container).unlink(missing_ok=True)

    def _remove_start_files(self, container: ContainerID) -> None:
        for name in _START_FILES:
            (self._folders.bundles / container / name).unlink(missing_ok=True)
        (self._folders.exits / container).unlink(missing_ok=True)


def _remove_empty(log: Path) -> None:
    with suppress(OSError):
        if log.stat().st_size == 0:
            log.unlink()


def noted_cgroup(bundle: Path) -> str:
    """The cgroup that a container's spec names; empty when it has none. Blocking."""
    try:
        linux = prepare.read_bundle(bundle)["linux"]
    except (OSError, ValueError, KeyError):
        return ""
    return str(linux["cgroupsPath"]) if isinstance(linux, Mapping) else ""


def image_mounts(container: Container) -> list[ContainerID]:
    """The names of the images that are mounted into a container."""
    mounts = enumerate(container.config.mounts)
    return [ContainerID(f"{container.id}-image-{index}") for index, mount in mounts if mount.HasField("image")]


def rewrite_limits(bundle: Path, resources: Mapping[str, object]) -> None:
    """Change the limits in the spec of a container that does not run yet. Blocking."""
    spec = prepare.read_bundle(bundle)
    linux = spec["linux"]
    assert isinstance(linux, dict), "our own file"
    linux["resources"] = {**resources, "devices": linux["resources"]["devices"]}
    prepare.write_bundle(bundle, spec)


def merge_limits(into: pb.LinuxContainerResources, changes: pb.LinuxContainerResources) -> None:
    """Take over the fields that are set; maps and lists replace the old ones when they are not empty."""
    if changes.unified:
        into.ClearField("unified")
    if changes.hugepage_limits:
        into.ClearField("hugepage_limits")
    into.MergeFrom(changes)
