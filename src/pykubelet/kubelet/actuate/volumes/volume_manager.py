"""Volume manager: sets up the volumes of pods, keeps their files up to date, and tears them down.

The pod worker calls `mount` in each sync before it touches containers, and `unmount` when the last container has
exited; the pod runtime calls `container_mounts` when it creates a container.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.tasks import yielding_to_loop
from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import HostMount, VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvFile, EnvFileValues, HostDevice
from pykubelet.kubelet.actuate.volumes.container_devices import groups_of
from pykubelet.kubelet.actuate.volumes.container_volumes import ContainerVolumes
from pykubelet.kubelet.actuate.volumes.expand_volumes import VolumeExpansion
from pykubelet.kubelet.actuate.volumes.kinds.config_map import ConfigMapVolume
from pykubelet.kubelet.actuate.volumes.kinds.downward_api import DownwardApi
from pykubelet.kubelet.actuate.volumes.kinds.empty_dir import EmptyDir
from pykubelet.kubelet.actuate.volumes.kinds.host_path import HostPath
from pykubelet.kubelet.actuate.volumes.kinds.image import ImageVolume
from pykubelet.kubelet.actuate.volumes.kinds.local import LocalVolume
from pykubelet.kubelet.actuate.volumes.kinds.projected import ProjectedVolume
from pykubelet.kubelet.actuate.volumes.kinds.secret import SecretVolume
from pykubelet.kubelet.actuate.volumes.mount import teardown
from pykubelet.kubelet.actuate.volumes.mount.format_device import Formatter
from pykubelet.kubelet.actuate.volumes.mount.local_devices import LocalDevices, mounted_at
from pykubelet.kubelet.actuate.volumes.mount.remote_volumes import KINDS, RemoteVolumes
from pykubelet.kubelet.actuate.volumes.mount.upkeep import VolumeUpkeep
from pykubelet.kubelet.actuate.volumes.plan import pod_volumes
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.setup_jobs import (
    VolumeJob,
    WrittenBytes,
    attach_limit_exceeded,
    gets_other_content,
    is_changed,
    not_processed,
    not_set_up,
    set_up_all,
)
from pykubelet.kubelet.actuate.volumes.source_lookup import SourceLookup
from pykubelet.kubelet.actuate.volumes.volume_metrics import Measure
from pykubelet.kubelet.actuate.volumes.volume_source import LOCAL, Source
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs, SlowChanges
from pykubelet.kubelet.actuate.volumes.volume_types import (
    Plugin,
    ReadyVolume,
    SetUpRequest,
    VolumeAttributes,
    VolumeConfig,
    VolumeContext,
    VolumeDeps,
)
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.storage import AttachLimitExceeded, VolumeSizes
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_FIRST_DELAY: Final[Seconds] = 0.5
_MAX_DELAY: Final[Seconds] = 122.0
_SOON: Final[Seconds] = 4.0
_PLUGINS: Final[Mapping[str, Plugin]] = {
    pod_volumes.EMPTY_DIR: EmptyDir(),
    "host_path": HostPath(),
    "config_map": ConfigMapVolume(),
    "secret": SecretVolume(),
    "downward_api": DownwardApi(),
    "projected": ProjectedVolume(),
    "image": ImageVolume(),
    LOCAL: LocalVolume(),
}


class _PodState(Struct):
    """Volumes that this process has set up for one pod."""

    since: Seconds
    """Monotonic time of the first request."""
    prepared: bool = False
    """Whether the pod's directories were created."""
    sources: dict[str, Source] = field(default_factory=dict)
    """Sources by volume name, as far as they could be looked up."""
    ready: dict[str, ReadyVolume | None] = field(default_factory=dict)
    """Volumes that are set up, by name; None for a volume that is not checked again."""


class VolumeManager:
    """Volume manager of the node. Calls for one pod must not overlap; its worker makes them one after the other.

    State in memory can be lost: after a restart `mount` checks what is set up, and `unmount` works from the disk and
    the mount table.
    """

    def __init__(self, *, dirs: PodDirs, deps: VolumeDeps, config: VolumeConfig | None = None) -> None:
        config = config or VolumeConfig()
        self._dirs = dirs
        self._deps = deps
        self._blocking = BlockingJobs(config.deadline)
        self._source_lookup = SourceLookup(deps.claims)
        self._measure = Measure(
            deps.telemetry.metrics, deps.telemetry.clock, {kind: each.name for kind, each in _PLUGINS.items()}
        )
        self._remote = RemoteVolumes(
            dirs=dirs, blocking=self._blocking, timeout=config.deadline, csi=deps.csi, measure=self._measure
        )
        self._slow_changes = SlowChanges(
            events=deps.telemetry.events, clock=deps.telemetry.clock, stall=config.deadline
        )
        self._devices = LocalDevices(dirs=dirs, blocking=self._blocking, formatter=Formatter(config.deadline))
        expansion: VolumeExpansion | None = None
        if deps.claims is not None and deps.csi is not None:
            expansion = VolumeExpansion(
                claims=deps.claims,
                csi=deps.csi,
                events=deps.telemetry.events,
                clock=deps.telemetry.clock,
                measure=self._measure,
            )
        self._upkeep = VolumeUpkeep(remote=self._remote, expansion=expansion, telemetry=deps.telemetry)
        self._containers = ContainerVolumes(
            dirs=dirs,
            images=deps.images,
            recursive_read_only=deps.recursive_read_only,
            ready=self._ready_source,
            path=self._path,
            attributes=_attributes,
            block=self._block,
        )
        self._states: dict[PodUID, _PodState] = {}
        self._teardown_backoff = Backoff(_FIRST_DELAY, _MAX_DELAY)
        """Back-off of pods whose volumes a driver does not release."""

    async def mount(self, pod: Pod, context: VolumeContext) -> None:
        """Set up the pod's directories and volumes, and update files whose source has changed.

        Repeatable; only looks at the volumes, in a thread, when there is nothing to do. Raises VolumeError with the
        volumes that could not be set up. A volume that cannot be refreshed (its ConfigMap was deleted, for example)
        keeps its content; that is reported by an event, as in the Go kubelet. AttachLimitExceeded: volumes cannot be
        attached, since the node can have no more of them.
        """
        state = self._states.setdefault(ref_of(pod).uid, _PodState(self._deps.telemetry.clock.monotonic()))
        there = set(state.ready)
        await self._look(ref_of(pod).uid, state)
        # The source of a claim that is not set up yet is looked up again: it may have changed.
        known = [name for name, source in state.sources.items() if name in state.ready or not source.claim]
        found, unknown = await self._source_lookup.find(pod, known)
        state.sources |= found
        jobs: dict[str, VolumeJob] = {}
        remote: dict[str, Source] = {}
        problems: dict[str, str] = {}
        beyond: dict[str, str] = {}
        written = WrittenBytes(state.ready.values())
        async for name, source in yielding_to_loop(state.sources.items()):
            if name in unknown:
                continue
            if source.kind in KINDS:
                if name not in state.ready:
                    remote[name] = source
                continue
            try:
                job = self._prepare(pod, source, context)
                if name not in state.ready:
                    await self._devices.set_up(source)
                if name not in state.ready or gets_other_content(state.ready[name], job):
                    written.charge(state.ready.get(name), job.work)
                    jobs[name] = job
            except (PykubeletError, OSError) as error:
                problems[name] = str(error)
        problems |= await self._do_first(pod, jobs)
        if jobs or not state.prepared:
            problems |= await self._run(pod, state, jobs)
        if remote and state.prepared:
            waiting_for_retry = (problems.keys() | unknown.keys()) - state.ready.keys()
            failed = await self._remote.set_up(pod, remote, hurry=bool(waiting_for_retry))
            state.ready |= dict.fromkeys(remote.keys() - failed.keys())
            problems |= {name: str(error) for name, error in failed.items()}
            beyond = {name: problems[name] for name, error in failed.items() if isinstance(error, AttachLimitExceeded)}
        self._measure.mounted([state.sources[name] for name in state.ready.keys() - there], state.since)
        await self._upkeep.keep(pod, {name: each for name, each in state.sources.items() if name in state.ready})
        try:
            self._report(pod, state, problems, unknown)
        except VolumeError as error:
            if not beyond:
                raise
            unmounted = (problems.keys() | unknown.keys()) - state.ready.keys()
            raise AttachLimitExceeded(attach_limit_exceeded(unmounted, beyond, unknown)) from error

    async def container_mounts(
        self, pod: Pod, container: AnyContainer, env: Mapping[str, str]
    ) -> tuple[HostMount, ...]:
        """Return the mounts of a container: ``ContainerVolumes.mounts``."""
        return await self._containers.mounts(pod, container, env)

    def container_devices(self, pod: Pod, container: AnyContainer) -> tuple[HostDevice, ...]:
        """Return the host devices of a container: ``ContainerVolumes.devices``."""
        return self._containers.devices(pod, container)

    async def read_files(self, pod: Pod, files: Mapping[EnvFile, Collection[str]]) -> dict[EnvFile, EnvFileValues]:
        """Read files in the pod's volumes: ``ContainerVolumes.read_files``."""
        return await self._containers.read_files(pod, files)

    def extra_groups(self, pod: Pod) -> tuple[int, ...]:
        """Supplemental groups that PersistentVolumes of the pod require by annotation."""
        state = self._states.get(ref_of(pod).uid)
        return groups_of(state.sources.values()) if state is not None else ()

    async def sizes(self, pod: Pod) -> dict[str, VolumeSizes]:
        """Capacity and usage of PersistentVolumes (except hostPath), CSI and NFS volumes, as far as available."""
        state = self._states.get(ref_of(pod).uid)
        if state is None:
            return {}
        found: dict[str, VolumeSizes] = {}
        for name, source in list(state.sources.items()):
            if name not in state.ready or source.volume.host_path is not None:
                continue
            if source.kind not in KINDS and not source.claim:
                continue
            try:
                sizes = await self._remote.sizes(pod, source, self._path(ref_of(pod).uid, source))
            except PykubeletError as error:
                extra = {"pod": str(ref_of(pod)), "volume": name, "error": str(error)}
                _log.info("volume stats unavailable", extra=extra)
                continue
            if sizes is not None:
                found[name] = replace(sizes, claim=source.claim)
        return found

    async def unmount(self, uid: PodUID) -> None:
        """Tear down all volumes of a pod whose containers have exited, also of a pod of an earlier agent.

        Termination logs are kept until `remove`. Repeatable; raises VolumeError with the volumes that remain.
        """
        state = self._states.pop(uid, None)
        await self._tear_down_remote(uid)
        own = [state.sources[name] for name in state.ready] if state is not None else []
        with self._measure.unmounting([source for source in own if source.kind not in KINDS]):
            await self._block(uid, lambda: teardown.remove_volumes(self._dirs, uid))
        await self._release_devices()

    async def remove(self, uid: PodUID) -> None:
        """Remove the pod's directory with everything in it. Repeatable; raises VolumeError."""
        self._states.pop(uid, None)
        await self._tear_down_remote(uid)
        await self._block(uid, lambda: teardown.remove_pod(self._dirs, uid))
        await self._release_devices()

    def counts(self) -> dict[tuple[str, str], int]:
        """Number of desired and of mounted volumes by plugin; state names as in the Go kubelet's metrics."""
        found: Counter[tuple[str, str]] = Counter()
        for state in self._states.values():
            for name, source in state.sources.items():
                plugin = self._measure.plugin(source) or "N/A"
                found[plugin, "desired_state_of_world"] += 1
                found[plugin, "actual_state_of_world"] += name in state.ready
        return {key: number for key, number in found.items() if number}

    def pods_on_disk(self) -> set[PodUID]:
        """List the pods that have a directory; the caller passes orphans to `remove`. Blocks; raises OSError."""
        return self._dirs.uids()

    async def _tear_down_remote(self, uid: PodUID) -> None:
        """Tear down CSI and NFS volumes of a pod, before other volumes are unmounted. Raises VolumeError."""
        await self._upkeep.end(uid)
        try:
            if not await self._remote.has_any(uid):
                return
        except PykubeletError as error:
            raise VolumeError("", f"volumes of pod {uid}: {error}") from error
        await self._block(uid, lambda: teardown.unmount_sub_paths(self._dirs, uid))
        try:
            await self._remote.tear_down(uid)
        except PykubeletError as error:
            delay = self._teardown_backoff.next(uid, self._deps.telemetry.clock.monotonic())
            # The first failures are reported by events and retried soon; later the delay grows.
            later = delay if delay > _SOON else None
            raise VolumeError("", f"volumes of pod {uid}: {error}", later) from error
        self._teardown_backoff.reset(uid)

    async def _release_devices(self) -> None:
        sources = (source for state in self._states.values() for source in state.sources.values())
        wanted = frozenset(source.name for source in sources if source.kind == LOCAL)
        try:
            await self._devices.release(wanted)
        except (PykubeletError, OSError) as error:
            _log.warning("devices of local volumes not unmounted: retrying later", extra={"error": str(error)})

    def _prepare(self, pod: Pod, source: Source, context: VolumeContext) -> VolumeJob:
        plugin = _PLUGINS.get(source.kind)
        if plugin is None:
            raise Unsupported(pod_volumes.unsupported(source.kind))
        path = self._path(ref_of(pod).uid, source)
        request = SetUpRequest(
            pod=pod,
            volume=source.volume,
            path=path,
            context=context,
            tokens=self._deps.tokens,
            now=self._deps.telemetry.clock.now(),
            source=source,
            device=mounted_at(self._dirs.root, source.name) if source.kind == LOCAL else None,
        )
        return VolumeJob(path, plugin.prepare(request))

    async def _look(self, uid: PodUID, state: _PodState) -> None:
        """Forget volumes that are no longer as this process set them up: they are set up again. Raises VolumeError."""
        sources = dict(state.sources)
        checked = {name: ready for name, ready in state.ready.items() if ready is not None}

        def changed() -> list[str]:
            return [name for name, ready in checked.items() if is_changed(ready, self._path(uid, sources[name]))]

        # In a thread of its own: a volume may hang for one container only.
        for name in await self._block(uid, changed, "look") if checked else ():
            del state.ready[name]

    async def _do_first(self, pod: Pod, jobs: dict[str, VolumeJob]) -> dict[str, str]:
        """Do the long parts of jobs; drop those that fail, and return the problems by volume."""
        problems: dict[str, str] = {}
        ref = ref_of(pod)
        for name, job in list(jobs.items()):
            if job.work.first is None:
                continue
            try:
                await self._slow_changes.run(ref, _owner(ref.uid), job.path, job.work.first)
            except (PykubeletError, OSError) as error:
                problems[name] = str(error)
                del jobs[name]
        return problems

    async def _run(self, pod: Pod, state: _PodState, jobs: Mapping[str, VolumeJob]) -> dict[str, str]:
        """Run the jobs in a thread; return the problems by volume."""
        ref = ref_of(pod)

        def set_up_volumes() -> tuple[dict[str, ReadyVolume | None], dict[str, str]]:
            self._dirs.prepare(ref.uid)
            return set_up_all(jobs, lambda name: self._measure.mounting(state.sources[name]))

        try:
            done, problems = await self._blocking.run(_owner(ref.uid), set_up_volumes)
        except (PykubeletError, OSError) as error:
            names = list(jobs) or [""]
            _log.warning("volumes not set up", extra={"pod": str(ref), "error": str(error)})
            return dict.fromkeys(names, str(error))
        state.prepared = True
        state.ready |= done
        return problems

    def _report(self, pod: Pod, state: _PodState, problems: Mapping[str, str], unknown: Mapping[str, str]) -> None:
        """Raise VolumeError or send events: ``problems`` by volume with a known source, ``unknown`` for the others."""
        messages = {name: not_set_up(state.sources.get(name), text) for name, text in problems.items()}
        for name in [name for name in problems if name in state.sources and state.sources[name].block]:
            self._deps.telemetry.events.event(ref_of(pod), WARNING, Reason.FAILED_MAP_VOLUME, messages[name])
        for name in [name for name in messages if name in state.ready]:
            self._deps.telemetry.events.event(ref_of(pod), WARNING, Reason.FAILED_MOUNT, messages.pop(name))
        if unknown:
            messages[next(iter(unknown))] = not_processed(unknown)
        if messages:
            raise VolumeError(next(iter(messages)), "; ".join(messages.values()))

    def _path(self, uid: PodUID, source: Source) -> Path:
        if source.kind in KINDS:
            return self._remote.path(uid, source)
        if source.volume.host_path is not None:
            return Path(source.volume.host_path.path)
        if source.block and source.pv is not None and source.pv.spec.local is not None:
            return Path(source.pv.spec.local.path)
        return self._dirs.of_volumes.volume(uid, _PLUGINS[source.kind].name, source.name)

    def _ready_source(self, uid: PodUID, name: str) -> Source | None:
        """Source of the volume if it is set up."""
        state = self._states.get(uid)
        return state.sources.get(name) if state is not None and name in state.ready else None

    async def _block(self, uid: PodUID, job: Callable[[], _T], work: str = "volumes") -> _T:
        try:
            return await self._blocking.run(_owner(uid, work), job)
        except (PykubeletError, OSError) as error:
            raise VolumeError("", f"volumes of pod {uid}: {error}") from error


def _owner(uid: PodUID, work: str = "volumes") -> str:
    return f"pod/{uid}/{work}"


def _attributes(source: Source) -> VolumeAttributes:
    attributes = _PLUGINS[source.kind].attributes if source.kind in _PLUGINS else VolumeAttributes()
    return replace(attributes, read_only=True) if source.read_only else attributes
