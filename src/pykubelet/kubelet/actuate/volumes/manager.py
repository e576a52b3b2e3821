"""Sets up the volumes of pods, keeps their files up to date, mounts them for containers and takes them down.

The pod worker calls `mount` at each sync before it touches containers, and `unmount` when the last container has
ended; the pod runtime asks `container_mounts` when it makes a container.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.base.safe_path import open_regular_in_root
from pykubelet.base.units import KIB
from pykubelet.kubelet.actuate.criconfig.types import EnvFile
from pykubelet.kubelet.actuate.types import HostMount, VolumeError
from pykubelet.kubelet.actuate.volumes import decide, teardown
from pykubelet.kubelet.actuate.volumes.blocking import Blocking
from pykubelet.kubelet.actuate.volumes.config_map import ConfigMapVolume
from pykubelet.kubelet.actuate.volumes.downward_api import DownwardApi
from pykubelet.kubelet.actuate.volumes.empty_dir import EmptyDir
from pykubelet.kubelet.actuate.volumes.host_path import HostPath
from pykubelet.kubelet.actuate.volumes.image import ImageVolume
from pykubelet.kubelet.actuate.volumes.planning import MountedVolume, Place, PlannedMount, plan
from pykubelet.kubelet.actuate.volumes.pod_dirs import PodDirs
from pykubelet.kubelet.actuate.volumes.projected import Projected
from pykubelet.kubelet.actuate.volumes.secret import SecretVolume
from pykubelet.kubelet.actuate.volumes.subpath import SubPath, bind_sub_path
from pykubelet.kubelet.actuate.volumes.types import (
    Plugin,
    Ready,
    Request,
    VolumeConfig,
    VolumeContext,
    VolumeDeps,
    Work,
)
from pykubelet.kubelet.types.events import WARNING, Reason
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import Pod, Volume

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_MAX_ENV_FILE: Final = 64 * KIB
"""Limit of KEP-3721 for a file of environment variables."""


@dataclass(slots=True)
class _PodState:
    """What this process has set up for one pod."""

    prepared: bool = False
    """The pod's folders are there."""
    ready: dict[str, Ready | None] = field(default_factory=dict)
    """By volume name; None for one that need not be looked at again."""


class VolumeManager:
    """The manager. All calls of one pod have to come one after the other, as they do from its worker.

    Nothing is remembered that matters: after a restart `mount` finds out what is there, and `unmount` works from
    the disk and the mount table.
    """

    def __init__(self, dirs: PodDirs, deps: VolumeDeps, config: VolumeConfig | None = None) -> None:
        config = config or VolumeConfig()
        self._dirs = dirs
        self._deps = deps
        self._blocking = Blocking(config.parallel, config.deadline)
        self._states: dict[PodUID, _PodState] = {}
        self._plugins: Mapping[str, Plugin] = {
            decide.EMPTY_DIR: EmptyDir(),
            "host_path": HostPath(),
            "config_map": ConfigMapVolume(),
            "secret": SecretVolume(),
            "downward_api": DownwardApi(),
            "projected": Projected(),
            "image": ImageVolume(),
        }

    async def mount(self, pod: Pod, context: VolumeContext) -> None:
        """Set up the pod's folders and volumes, and bring files up to date whose source has changed.

        May be repeated; takes well under a millisecond when there is nothing to do. Raises VolumeError naming
        the volumes that could not be set up. One that is set up already but cannot be refreshed (its ConfigMap
        is gone, say) keeps what it shows; that gives an event, as in the reference.
        """
        uid = ref_of(pod).uid
        state = self._states.setdefault(uid, _PodState())
        jobs: dict[str, _Job] = {}
        problems: dict[str, str] = {}
        for volume in pod.spec.volumes:
            try:
                job = self._prepare(pod, volume, context)
            except PykubeletError as error:
                problems[volume.name] = str(error)
                continue
            if not _is_ready(state, volume.name, job):
                jobs[volume.name] = job
        if jobs or not state.prepared:
            problems |= await self._run(pod, state, jobs)
        self._report(pod, state, problems)

    async def container_mounts(
        self, pod: Pod, container: AnyContainer, env: Mapping[str, str]
    ) -> tuple[HostMount, ...]:
        """The mounts of a container, in the order of its spec; `env` is its environment, for `subPathExpr`.

        Sub paths are opened safely and bound to places which no pod can reach; image volumes are pulled. Raises
        VolumeError with the reference's text, or `ImageError`.
        """
        planned = [self._plan(pod, container, i, env) for i in range(len(container.volume_mounts))]
        found = [await self._pulled(pod, p) for p in planned]
        if any(p.sub_path for p in planned):
            await self._bind(pod, container, planned)
        return tuple(found)

    async def read_files(self, pod: Pod, files: Iterable[EnvFile]) -> dict[EnvFile, str]:
        """Contents of files in the pod's volumes, for `fileKeyRef`; those that cannot be read are left out.

        Only regular files of up to 64 KiB that lie in the volume count. Raises VolumeError if the volumes do
        not answer.
        """
        wanted = [(file, root) for file in files if (root := self._root_of(pod, file.volume))]
        if not wanted:
            return {}
        texts = await self._block(ref_of(pod).uid, lambda: [(f, _read(root, f.path)) for f, root in wanted])
        return {file: text for file, text in texts if text is not None}

    async def unmount(self, uid: PodUID) -> None:
        """Take down all volumes of a pod whose containers have ended, also of one this process never knew.

        Its termination logs stay until `remove`. May be repeated; raises VolumeError naming what stays.
        """
        self._states.pop(uid, None)
        await self._block(uid, lambda: teardown.remove_volumes(self._dirs, uid))

    async def remove(self, uid: PodUID) -> None:
        """Remove everything a pod has here, when it is forgotten. May be repeated; raises VolumeError."""
        self._states.pop(uid, None)
        await self._block(uid, lambda: teardown.remove_pod(self._dirs, uid))

    def pods_on_disk(self) -> set[PodUID]:
        """Pods that have a folder here; those nobody knows any more should be given to `remove`."""
        return self._dirs.uids()

    def _prepare(self, pod: Pod, volume: Volume, context: VolumeContext) -> "_Job":
        source = decide.source_of(volume)
        plugin = self._plugins.get(source)
        if plugin is None:
            raise Unsupported(decide.unsupported(source))
        path = self._path(ref_of(pod).uid, volume, plugin)
        request = Request(
            pod=pod,
            volume=volume,
            path=path,
            context=context,
            tokens=self._deps.tokens,
            now=self._deps.clock.now(),
        )
        return _Job(path, plugin.prepare(request))

    def _path(self, uid: PodUID, volume: Volume, plugin: Plugin) -> Path:
        if volume.host_path is not None:
            return Path(volume.host_path.path)
        return self._dirs.volume(uid, plugin.name, volume.name)

    async def _run(self, pod: Pod, state: _PodState, jobs: Mapping[str, "_Job"]) -> dict[str, str]:
        """Do what is to be done in a thread; returns the problems by volume."""
        ref = ref_of(pod)

        def work() -> tuple[dict[str, Ready | None], dict[str, str]]:
            self._dirs.prepare(ref.uid)
            return _set_up(jobs)

        try:
            done, problems = await self._blocking.run(ref.uid, work)
        except (PykubeletError, OSError) as error:
            names = list(jobs) or [""]
            _log.warning("volumes cannot be set up", extra={"pod": str(ref), "error": str(error)})
            return dict.fromkeys(names, str(error))
        state.prepared = True
        state.ready |= done
        return problems

    def _report(self, pod: Pod, state: _PodState, problems: Mapping[str, str]) -> None:
        messages = {name: _message(name, text) for name, text in problems.items()}
        for name in [name for name in messages if name in state.ready]:
            self._deps.events.event(ref_of(pod), WARNING, Reason.FAILED_MOUNT, messages.pop(name))
        if messages:
            raise VolumeError(next(iter(messages)), "; ".join(messages.values()))

    def _plan(self, pod: Pod, container: AnyContainer, index: int, env: Mapping[str, str]) -> PlannedMount:
        mount = container.volume_mounts[index]
        volume = next((v for v in pod.spec.volumes if v.name == mount.name), None)
        place = Place(ref_of(pod).uid, container.name, index)
        state = self._states.get(place.uid)
        if volume is None or state is None or mount.name not in state.ready:
            raise VolumeError(
                mount.name, f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
            )
        plugin = self._plugins[decide.source_of(volume)]
        path = "" if volume.image else str(self._path(place.uid, volume, plugin))
        mounted = MountedVolume(path, plugin.attributes, volume.image)
        try:
            rro = self._deps.recursive_read_only(pod)
            return plan(self._dirs, place, mount, mounted, env=env, rro=rro)
        except PykubeletError as error:
            raise VolumeError(mount.name, str(error)) from error

    async def _pulled(self, pod: Pod, planned: PlannedMount) -> HostMount:
        if planned.image is None:
            return planned.mount
        reference = planned.image.reference
        image = await self._deps.images.ensure_volume(pod, reference, planned.image.pull_policy)
        return replace(planned.mount, host_path="", image=image, user_specified_image=reference)

    async def _bind(self, pod: Pod, container: AnyContainer, planned: Iterable[PlannedMount]) -> None:
        todo = [(p.mount.name, p.sub_path) for p in planned if p.sub_path]
        problem = await self._block(ref_of(pod).uid, lambda: _bind_all(todo))
        if problem is None:
            return
        name, text = problem
        # The pod's owner is not told the details: they could tell about the host's files.
        _log.error(
            "a sub path cannot be prepared",
            extra={"pod": str(ref_of(pod)), "container": container.name, "volume": name, "error": text},
        )
        message = f'failed to prepare subPath for volumeMount "{name}" of container "{container.name}"'
        raise VolumeError(name, message)

    def _root_of(self, pod: Pod, name: str) -> Path | None:
        """Root of a volume that is set up and has one."""
        uid = ref_of(pod).uid
        state = self._states.get(uid)
        for volume in pod.spec.volumes:
            if volume.name == name and state is not None and name in state.ready and volume.image is None:
                return self._path(uid, volume, self._plugins[decide.source_of(volume)])
        return None

    async def _block(self, uid: PodUID, job: Callable[[], _T]) -> _T:
        try:
            return await self._blocking.run(uid, job)
        except (PykubeletError, OSError) as error:
            raise VolumeError("", f"volumes of pod {uid}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Job:
    """A volume to set up, and where it will be."""

    path: Path
    work: Work


def _message(volume: str, text: str) -> str:
    if not volume:
        return f"error making pod data directories: {text}"
    return f'MountVolume.SetUp failed for volume "{volume}" : {text}'


def _is_ready(state: _PodState, name: str, job: _Job) -> bool:
    """Whether the volume is as this process left it, and shows what it should."""
    if name not in state.ready:
        return False
    ready = state.ready[name]
    if ready is None:
        return True
    return ready.content == job.work.content and ready == _observe(job)


def _observe(job: _Job) -> Ready | None:
    try:
        info = job.path.lstat()
    except OSError:
        return None
    return Ready(info.st_dev, info.st_ino, job.work.content)


def _set_up(jobs: Mapping[str, _Job]) -> tuple[dict[str, Ready | None], dict[str, str]]:
    """Set up volumes one after the other (most take a fraction of a millisecond). Runs in a thread."""
    done: dict[str, Ready | None] = {}
    problems: dict[str, str] = {}
    for name, job in jobs.items():
        try:
            job.work.run()
        except (PykubeletError, OSError) as error:
            problems[name] = str(error)
            continue
        done[name] = None if job.work.lasting else _observe(job)
    return done, problems


def _bind_all(sub_paths: Iterable[tuple[str, SubPath]]) -> tuple[str, str] | None:
    """Bind all; the first that fails with the reason. Runs in a thread."""
    for name, sub_path in sub_paths:
        try:
            bind_sub_path(sub_path)
        except (PykubeletError, OSError) as error:
            return name, str(error)
    return None


def _read(root: Path, relative: str) -> str | None:
    """Text of a file of a volume; None if it cannot be had. Runs in a thread."""
    try:
        with os.fdopen(open_regular_in_root(root, relative), "rb") as file:
            data = file.read(_MAX_ENV_FILE + 1)
    except (PykubeletError, OSError) as error:
        _log.info("cannot read a file of a volume", extra={"path": relative, "error": str(error)})
        return None
    if len(data) > _MAX_ENV_FILE:
        _log.warning("a file of environment variables is too large", extra={"path": relative})
        return None
    return data.decode("utf-8", "surrogateescape")
