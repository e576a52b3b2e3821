"""CreateContainer: builds a record, a root file system and a bundle from a request. No process is started."""

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.shield import shielded
from pykubelet.base.units import Seconds
from pykubelet.criserver.config.machine import cgroup_of
from pykubelet.criserver.container import prepare
from pykubelet.criserver.container.accounts import find_user
from pykubelet.criserver.container.decide import id_for_retry, move
from pykubelet.criserver.container.interfaces import ContainerDeps, ImageFacts
from pykubelet.criserver.container.registry import Registry
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.container.stop import Stopper
from pykubelet.criserver.events import EventKind
from pykubelet.criserver.spec import ContainerInput, HostDevice, SandboxView, build_container, userns
from pykubelet.criserver.spec.apparmor import apparmor_profile
from pykubelet.criserver.spec.seccomp import runtime_default
from pykubelet.criserver.spec.signals import signal_number, stop_signal
from pykubelet.criserver.spec.types import Json
from pykubelet.criserver.types import (
    ContainerID,
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    SandboxID,
    UserNamespace,
    new_id,
    request_digest,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_NODE_PATHS: Seconds = 60.0
"""Deadline of preparing a container's host paths; shorter than clients' deadlines, so that they get the error."""


class Creator:
    """Implementation of CreateContainer."""

    def __init__(self, deps: ContainerDeps, registry: Registry, stopper: Stopper) -> None:
        self._deps = deps
        self._registry = registry
        self._stopper = stopper

    async def create(self, sandbox: SandboxID, config: pb.ContainerConfig) -> tuple[Container, bool]:
        """Create a container; return it, and whether it is new. A retry gets the first one unless that was started.

        Errors: NotFound, Invalid, Conflict (the name is taken), Permanent, Transient.
        """
        await self._clear(sandbox, _name(config))
        record, image = self._draft(sandbox, config)
        for holder in self._registry.of_sandbox(sandbox):
            if holder.record.name == record.name:
                return self._registry.get(id_for_retry(holder.record, record.request)), False
        # Nothing is awaited before the call is registered: either a stop of the sandbox sees it, or it sees the stop.
        container = self._registry.add(record)
        container.launched = False
        try:
            with container.in_progress.call(f"the creation of container {record.name}"):
                await self._deps.store.add_container(record)
                user = await self._make(record, config, image)
                await self._registry.put(container, move(record, ContainerPhase.CREATED, user=user))
        except BaseException:
            await shielded(lambda: self._undo(container, record))
            raise
        self._registry.publish(container.record, EventKind.CREATED, record.created_at)
        return container, True

    async def _clear(self, sandbox: SandboxID, name: str) -> None:
        """Finish the removal of a container that still holds the name because its removal failed."""
        for holder in self._registry.of_sandbox(sandbox):
            if holder.record.name == name and holder.leftover:
                await self._stopper.remove(holder)

    async def _undo(self, container: Container, drafted: ContainerRecord) -> None:
        try:
            # Partially created: no client sees it, and the next server removes it.
            await self._registry.note(container, drafted)
            await self._stopper.purge(container)
        except (PykubeletError, OSError) as error:
            # Retried by the next creation of this name, by the removal of the sandbox, and by the next server.
            extra = {"container": container.id, "error": str(error)}
            _log.warning("cannot remove a container whose creation failed: retrying later", extra=extra)

    def _draft(self, sandbox: SandboxID, config: pb.ContainerConfig) -> tuple[ContainerRecord, ImageFacts]:
        """Draft the record that reserves the name. NotFound: sandbox, image; Permanent: sandbox not ready; Invalid."""
        view = self._deps.sandboxes.view(sandbox)
        if not config.metadata.name:
            raise Invalid("a container needs a name (metadata.name)")
        userns.check_container(config.linux.security_context.namespace_options, view.user.ids if view.user else None)
        image = self._deps.images.find(config.image.image)
        if image is None:
            raise NotFound(
                f"image {config.image.image!r} of container {config.metadata.name} is not present; pull it first"
            )
        signal_name = stop_signal(config, image.stop_signal)
        signal_number(signal_name)
        identity = ContainerID(new_id())
        runtime = self._deps.runtimes[self._deps.sandboxes.handler(sandbox)]
        record = ContainerRecord(
            id=identity,
            name=_name(config),
            sandbox_id=sandbox,
            config=self._resolved(config).SerializeToString(),
            created_at=self._registry.creation_time(sandbox),
            image_id=image.id,
            image_ref=image.reference,
            log_path=_log_path(view.config.log_directory, config.log_path),
            cgroup=cgroup_of(view.config.linux.cgroup_parent, identity, runtime.systemd),
            stop_signal=signal_name,
            request=request_digest(config),
        )
        return record, image

    async def _make(self, record: ContainerRecord, config: pb.ContainerConfig, image: ImageFacts) -> ContainerUser:
        """Create root file system, mounts and bundle; undo them on failure. Returns the user."""
        await self._check_recursive(record, config)
        if profile := apparmor_profile(config.linux.security_context, self._deps.host):
            await self._deps.apparmor.ensure(profile)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(shielded, lambda: self._deps.images.release(record.id))
            view = self._deps.sandboxes.view(record.sandbox_id)
            rootfs = await self._deps.images.prepare(image.id, record.id, view.user)
            sources = await self._image_mounts(record, config, view.user, undo)
            # By name, since retries of the client have other ids: this bounds the blocking calls that can hang.
            owner = f"container/{record.sandbox_id}/{config.metadata.name}"
            devices = await blocking.call(
                owner, prepare.prepare_node_paths, config, record.log_path, deadline=_NODE_PATHS
            )
            mapped = self._deps.directories.mapped / record.id
            undo.push_async_callback(blocking.call_to_end, owner, prepare.drop_mapped, mapped)
            sources |= await blocking.call_to_end(
                owner, prepare.map_mounts, mapped, config.mounts, view.user, deadline=_NODE_PATHS
            )
            pid_namespace = self._pid_namespace(config.linux.security_context.namespace_options, record.sandbox_id)
            work = _Work(record, config, image, view, rootfs, sources, pid_namespace, devices)
            user = await blocking.call_to_end(f"container/{record.id}", self._write, work)
            undo.pop_all()
        return user

    async def _check_recursive(self, record: ContainerRecord, config: pb.ContainerConfig) -> None:
        """Permanent: a recursive read-only mount is requested but not supported (KEP-3857)."""
        asked = next((mount for mount in config.mounts if mount.recursive_read_only), None)
        if asked is None:
            return
        handler = self._deps.sandboxes.handler(record.sandbox_id)
        if not self._deps.host.recursive_read_only:
            raise Permanent(f"mount {asked.container_path}: recursive read-only mounts need Linux 5.12")
        if not (await self._deps.runtimes[handler].features()).recursive_read_only:
            raise Permanent(
                f"mount {asked.container_path}: OCI runtime {handler} does not support recursive read-only mounts"
            )

    def _resolved(self, config: pb.ContainerConfig) -> pb.ContainerConfig:
        """Return the request with the ids of mounted images filled in, as ContainerStatus returns them (KEP-5365)."""
        resolved = pb.ContainerConfig()
        resolved.CopyFrom(config)
        for mount in resolved.mounts:
            if mount.HasField("image"):
                mount.image.image_ref = self._mounted_image(mount).id
        return resolved

    def _mounted_image(self, mount: pb.Mount) -> ImageFacts:
        image = self._deps.images.find(mount.image.image)
        if image is None:
            raise NotFound(f"image {mount.image.image!r} to be mounted on {mount.container_path} is not present")
        return image

    async def _image_mounts(
        self, record: ContainerRecord, config: pb.ContainerConfig, user: UserNamespace | None, undo: AsyncExitStack
    ) -> dict[str, str]:
        """Mount image volumes; return their host directories by container path."""
        sources: dict[str, str] = {}
        for index, mount in enumerate(config.mounts):
            if not mount.HasField("image"):
                continue
            image = self._mounted_image(mount)
            name = ContainerID(f"{record.id}-image-{index}")
            undo.push_async_callback(shielded, lambda name=name: self._deps.images.release(name))
            directory = await self._deps.images.prepare(image.id, name, user)
            owner = f"container/{record.id}"
            sources[mount.container_path] = await blocking.call(
                owner, prepare.sub_path, directory, mount.image_sub_path
            )
        return sources

    def _pid_namespace(self, options: pb.NamespaceOption, sandbox: SandboxID) -> str | None:
        match options.pid:
            case pb.NODE:
                return None
            case pb.CONTAINER:
                return ""
            case pb.TARGET:
                target = self._registry.running(options.target_id)
                if target.record.sandbox_id != sandbox or target.record.process is None:
                    raise Invalid(
                        f"container {options.target_id} is not in this sandbox; its PID namespace cannot be shared"
                    )
                return f"/proc/{target.record.process.pid}/ns/pid"
            case _:
                pid = self._deps.sandboxes.infra_pid(sandbox)
                if not pid:
                    raise Invalid("the sandbox was made without a shared PID namespace")
                return f"/proc/{pid}/ns/pid"

    def _write(self, work: "_Work") -> ContainerUser:
        record, config = work.record, work.config
        context = config.linux.security_context
        user = find_user(context, work.image.user, work.rootfs)
        mounted = {mount.container_path.rstrip("/") for mount in config.mounts}
        prepare.make_volumes(work.rootfs, work.image.volumes, mounted, work.view.user)
        spec = build_container(self._input(work, user))
        if config.CDI_devices:
            # Imported only when used: it loads the YAML parser.
            from pykubelet.criserver.container.cdi import inject

            spec = inject(spec, [device.name for device in config.CDI_devices], self._deps.directories.cdi)
        prepare.write_bundle(self._deps.directories.bundles / record.id, spec)
        return user

    def _input(self, work: "_Work", user: ContainerUser) -> ContainerInput:
        given = ContainerInput(
            config=work.config,
            sandbox=work.view,
            image=work.image.defaults,
            user=user,
            rootfs=str(work.rootfs),
            cgroup=work.record.cgroup,
            host=self._deps.host,
            pid_namespace=work.pid_namespace,
            devices=work.devices,
            mount_sources=work.sources,
        )
        return replaced(given, seccomp=self._seccomp(given))

    def _seccomp(self, given: ContainerInput) -> Json | None:
        """The seccomp profile; None for unconfined containers. Permanent: the kernel does not support seccomp."""
        profile = given.config.linux.security_context.seccomp
        asked = given.config.linux.security_context.HasField("seccomp")
        if not asked or profile.profile_type == pb.SecurityProfile.Unconfined:
            return None
        if not given.host.seccomp:
            raise Permanent(
                f"container {given.config.metadata.name}: its seccomp profile cannot be applied, the kernel has no "
                "seccomp (CONFIG_SECCOMP_FILTER); use another kernel, or a pod with seccompProfile type Unconfined"
            )
        if profile.profile_type == pb.SecurityProfile.RuntimeDefault:
            return runtime_default(given)
        return prepare.read_profile(self._deps.directories.seccomp, profile.localhost_ref)


@dataclass(frozen=True, slots=True)
class _Work:
    """The input of ``_write``, gathered by ``_make``."""

    record: ContainerRecord
    config: pb.ContainerConfig
    image: ImageFacts
    view: SandboxView
    rootfs: Path
    sources: dict[str, str]
    pid_namespace: str | None
    devices: tuple[HostDevice, ...]


def _name(config: pb.ContainerConfig) -> str:
    """The unique name in a sandbox: name and attempt."""
    return f"{config.metadata.name}_{config.metadata.attempt}"


def _log_path(directory: str, name: str) -> str:
    if not directory or not name:
        return ""
    if ".." in name.split("/") or name.startswith("/"):
        raise Invalid(f"log path {name!r} must be relative and stay in the pod's log directory")
    return f"{directory.rstrip('/')}/{name}"
