"""Containers' view of the volumes of their pod: mounts, devices, and files for environment variables.

The pod runtime asks for them, through the volume manager, when it creates a container; the volumes are set up then.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.safe_path import open_regular_in_root
from pykubelet.base.units import KIB, MIB
from pykubelet.kubelet.actuate.actuate_types import HostMount, VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvFile, EnvFileValues, HostDevice
from pykubelet.kubelet.actuate.cri_messages.environment.env_file import parse_env_file
from pykubelet.kubelet.actuate.volumes.container_devices import devices_of
from pykubelet.kubelet.actuate.volumes.container_mounts import MountedVolume, MountPlace, PlannedMount, plan
from pykubelet.kubelet.actuate.volumes.mount.subpath import bind_all
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_interfaces import RecursiveReadOnly, VolumeImages
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.actuate.volumes.volume_types import VolumeAttributes
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_MAX_ENV_FILE: Final = 64 * KIB
"""Limit of KEP-3721."""
_MAX_ENV_FILES: Final = 1 * MIB
"""Limit of all files of a container, which may name any number of them."""


class ThreadRunner(Protocol):
    """Runs a blocking job on a pod's volumes; raises VolumeError."""

    def __call__(self, uid: PodUID, job: Callable[[], _T]) -> Awaitable[_T]: ...


class ContainerVolumes:
    """The volumes of a pod as its containers get them."""

    def __init__(
        self,
        *,
        dirs: PodDirs,
        images: VolumeImages,
        recursive_read_only: RecursiveReadOnly,
        ready: Callable[[PodUID, str], Source | None],
        path: Callable[[PodUID, Source], Path],
        attributes: Callable[[Source], VolumeAttributes],
        block: ThreadRunner,
    ) -> None:
        """``ready`` returns the source of a volume if it is set up, ``path`` its path on the node, ``attributes`` how
        it is mounted into containers; ``block`` runs a job in the pod's threads.
        """
        self._dirs = dirs
        self._images = images
        self._recursive_read_only = recursive_read_only
        self._ready = ready
        self._path = path
        self._attributes = attributes
        self._block = block

    async def mounts(self, pod: Pod, container: AnyContainer, env: Mapping[str, str]) -> tuple[HostMount, ...]:
        """Return the mounts of a container, in the order of its spec; `env` is its environment, for `subPathExpr`.

        subPaths are opened safely and bind-mounted where no pod can reach them; image volumes are pulled. Raises
        VolumeError with the messages of the Go kubelet, or `ImageError`.
        """
        planned = [self._plan(pod, container, i, env) for i in range(len(container.volume_mounts))]
        found = [await self._pulled(pod, p) for p in planned]
        if any(p.sub_path for p in planned):
            await self._bind(pod, container, planned)
        return tuple(found)

    def devices(self, pod: Pod, container: AnyContainer) -> tuple[HostDevice, ...]:
        """Host devices for the container's `volumeDevices`. Raises VolumeError for a volume that is not set up."""
        uid = ref_of(pod).uid
        return devices_of(container, partial(self._ready, uid), partial(self._path, uid))

    async def read_files(self, pod: Pod, files: Mapping[EnvFile, Collection[str]]) -> dict[EnvFile, EnvFileValues]:
        """Read variables of files in the pod's volumes, for `fileKeyRef`; files that cannot be read are left out.

        Only regular files of up to 64 KiB inside the volume are read, and 1 MiB of all. Raises VolumeError if a file
        system does not respond.
        """
        roots = {file: root for file in files if (root := self._root_of(pod, file.volume))}
        if not roots:
            return {}
        # Parsed in the thread, too: they may be long, and each file is that of a container.
        return await self._block(ref_of(pod).uid, lambda: _read_env_files(roots, files))

    def _plan(self, pod: Pod, container: AnyContainer, index: int, env: Mapping[str, str]) -> PlannedMount:
        mount = container.volume_mounts[index]
        place = MountPlace(ref_of(pod).uid, container.name, index)
        source = self._ready(place.uid, mount.name)
        if source is None:
            raise VolumeError(
                mount.name, f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
            )
        image = source.volume.image
        path = "" if image else str(self._path(place.uid, source))
        mounted = MountedVolume(path, self._attributes(source), image)
        try:
            rro = self._recursive_read_only(pod.spec.runtime_class_name)
            return plan(self._dirs, place, mount, mounted, env=env, rro=rro)
        except PykubeletError as error:
            raise VolumeError(mount.name, str(error)) from error

    async def _pulled(self, pod: Pod, planned: PlannedMount) -> HostMount:
        if planned.image is None:
            return planned.mount
        reference = planned.image.reference
        image = await self._images.ensure_volume(pod, reference, planned.image.pull_policy)
        return replace(planned.mount, host_path="", image=image, user_specified_image=reference)

    async def _bind(self, pod: Pod, container: AnyContainer, planned: Iterable[PlannedMount]) -> None:
        todo = [(p.mount.name, p.sub_path) for p in planned if p.sub_path]
        problem = await self._block(ref_of(pod).uid, lambda: bind_all(todo))
        if problem is None:
            return
        name, text = problem
        # The details are only logged, not shown in the pod: they could reveal files of the host.
        _log.error(
            "subPath not prepared",
            extra={"pod": str(ref_of(pod)), "container": container.name, "volume": name, "error": text},
        )
        message = f'failed to prepare subPath for volumeMount "{name}" of container "{container.name}"'
        raise VolumeError(name, message)

    def _root_of(self, pod: Pod, name: str) -> Path | None:
        """Root directory of a volume that is set up; None for image volumes."""
        uid = ref_of(pod).uid
        source = self._ready(uid, name)
        return self._path(uid, source) if source is not None and source.volume.image is None else None


def _read_env_files(
    roots: Mapping[EnvFile, Path], wanted: Mapping[EnvFile, Collection[str]]
) -> dict[EnvFile, EnvFileValues]:
    """Read the wanted variables of files below the roots of their volumes. Blocks."""
    found: dict[EnvFile, EnvFileValues] = {}
    left = _MAX_ENV_FILES
    for file, root in roots.items():
        text = _read_env_file(root, file.path)
        if text is None:
            continue
        left -= len(text)
        if left < 0:
            _log.warning("environment files of a container too large together", extra={"path": file.path})
            break
        found[file] = parse_env_file(text, wanted[file])
    return found


def _read_env_file(root: Path, relative: str) -> str | None:
    """Read a file of environment variables in a volume; None if it cannot be read. Blocks."""
    try:
        with os.fdopen(open_regular_in_root(root, relative), "rb") as file:
            data = file.read(_MAX_ENV_FILE + 1)
    except (PykubeletError, OSError) as error:
        _log.info("environment file of a volume not read", extra={"path": relative, "error": str(error)})
        return None
    if len(data) > _MAX_ENV_FILE:
        _log.warning("environment file of a volume too large", extra={"path": relative})
        return None
    return data.decode("utf-8", "surrogateescape")
