"""Makes what a created container has on the machine: root file system, mounts and bundle."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.container.bundle.accounts import find_user
from pykubelet.criserver.container.bundle.apparmor import AppArmorProfiles
from pykubelet.criserver.container.checkpoint.restorer import RestoredCheckpoint, Restorer
from pykubelet.criserver.container.container_interfaces import Directories, ImageFacts, Images, Sandboxes
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.spec import ContainerInput, Host, HostDevice, SandboxView, build_container, covered_paths
from pykubelet.criserver.spec.cdi_request import asks_for_devices, devices_of
from pykubelet.criserver.spec.mounts import paths_to_relabel
from pykubelet.criserver.spec.resource_classes import asks_for_classes
from pykubelet.criserver.spec.security.apparmor import apparmor_profile
from pykubelet.criserver.spec.security.labels import file_label, process_label
from pykubelet.criserver.spec.security.seccomp import runtime_default
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.criserver.types import ContainerID, ContainerRecord, ContainerUser, ProcessRef, SandboxID
from pykubelet.linux.selinux import check_labels
from pykubelet.pb import runtime_v1_pb2 as pb

_STALL: Seconds = 120.0
"""Time after which relabelling a volume is given up if no file has got its label meanwhile."""
_NODE_PATHS: Seconds = 60.0
"""Deadline of preparing a container's host paths; shorter than clients' deadlines, so that they get the error."""


class Bundle(Struct, frozen=True):
    """The facts of a container that its record needs from its bundle."""

    user: ContainerUser
    namespace_process: ProcessRef | None
    """The process whose PID namespace the bundle names; None: it names none."""


class BundleMaker:
    """Makes root file systems, mounts and bundles."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        sandboxes: Sandboxes,
        images: Images,
        host: Host,
        apparmor: AppArmorProfiles,
        directories: Directories,
        restorer: Restorer,
    ) -> None:
        self._table = table
        self._sandboxes = sandboxes
        self._images = images
        self._host = host
        self._apparmor = apparmor
        self._directories = directories
        self._restorer = restorer

    async def make(
        self,
        record: ContainerRecord,
        config: pb.ContainerConfig,
        image: ImageFacts,
        restore: RestoredCheckpoint | None = None,
    ) -> Bundle:
        """Create root file system, mounts and bundle; undo them on failure.

        ``restore``: the checkpoint that the container is restored from, which must fit it.
        """
        await self._images.check_use(image.id, config.image.user_specified_image or config.image.image)
        await self._check_recursive(record, config)
        if profile := apparmor_profile(config.linux.security_context, self._host):
            await self._apparmor.ensure(profile)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(shielded, lambda: self._images.release(record.id))
            view = self._sandboxes.view(record.sandbox_id)
            # By name, since retries of the client have other ids: this bounds the blocking calls that can hang.
            owner = f"container/{record.sandbox_id}/{config.metadata.name}"
            label = file_label(config.linux.security_context, self._host, view.selinux_level)
            of_process = process_label(config.linux.security_context, self._host, view.selinux_level)
            if of_process or label:
                await blocking.call(owner, check_labels, of_process, label)
            rootfs = await self._images.prepare(image.id, record.id, view.user, label)
            sources = await self._image_mounts(record, config, view, undo)
            devices = await blocking.call(
                owner, prepare.prepare_node_paths, config, record.log_path, view.handler, deadline=_NODE_PATHS
            )
            if any(mount.uidMappings or mount.gidMappings for mount in config.mounts):
                mapped = self._directories.mapped / record.id
                undo.push_async_callback(blocking.call_to_end, owner, prepare.drop_mapped, mapped)
                sources |= await blocking.call_to_end(
                    owner, prepare.map_mounts, mapped, config.mounts, view.user, deadline=_NODE_PATHS
                )
            volumes = await self._images.make_volumes(image, record.id, covered=covered_paths(config), user=view.user)
            if label:
                paths = paths_to_relabel(config, view, volumes)
                # No deadline fits: volumes with many files take minutes.
                await blocking.call_stoppable(owner, partial(prepare.relabel_all, paths, label), stall=_STALL)
            pid_namespace, process = self._pid_namespace(
                config.linux.security_context.namespace_options, record.sandbox_id
            )
            if restore is not None:
                await self._restorer.apply(restore, record, rootfs)
            work = _Work(record, config, image, view, rootfs, sources, volumes, pid_namespace, devices, restore)
            user = await blocking.call_to_end(f"container/{record.id}", self._write, work)
            if restore is not None:
                await self._restorer.continue_log(restore, record)
            undo.pop_all()
        return Bundle(user, process)

    async def _check_recursive(self, record: ContainerRecord, config: pb.ContainerConfig) -> None:
        """Permanent: a recursive read-only mount is requested but not supported (KEP-3857)."""
        asked = next((mount for mount in config.mounts if mount.recursive_read_only), None)
        if asked is None:
            return
        handler = self._sandboxes.handler(record.sandbox_id)
        if not self._host.recursive_read_only:
            raise Permanent(f"mount {asked.container_path}: recursive read-only mounts need Linux 5.12")
        if not (await self._sandboxes.runtime(record.sandbox_id).features()).recursive_read_only:
            raise Permanent(
                f"mount {asked.container_path}: OCI runtime {handler} does not support recursive read-only mounts"
            )

    async def _image_mounts(
        self, record: ContainerRecord, config: pb.ContainerConfig, view: SandboxView, undo: AsyncExitStack
    ) -> dict[str, str]:
        """Mount image volumes; return their host directories by container path."""
        label = file_label(config.linux.security_context, self._host, view.selinux_level)
        sources: dict[str, str] = {}
        for index, mount in enumerate(config.mounts):
            if not mount.HasField("image"):
                continue
            image = mounted_image(self._images, mount)
            await self._images.check_use(image.id, mount.image.user_specified_image or mount.image.image)
            name = ContainerID(f"{record.id}-image-{index}")
            undo.push_async_callback(shielded, lambda name=name: self._images.release(name))
            directory = await self._images.prepare(image.id, name, view.user, label)
            owner = f"container/{record.id}"
            sources[mount.container_path] = await blocking.call(
                owner, prepare.sub_path, directory, mount.image_sub_path
            )
        return sources

    def _pid_namespace(self, options: pb.NamespaceOption, sandbox: SandboxID) -> tuple[str | None, ProcessRef | None]:
        """Return the path as in ``ContainerInput``, and the process that it is of. Invalid; the errors of ``running``.

        The OCI runtime opens the path later: the process is recorded, and the start checks that it still runs.
        """
        match options.pid:
            case pb.NODE:
                return None, None
            case pb.CONTAINER:
                return "", None
            case pb.TARGET:
                target = self._table.running(options.target_id)
                if target.record.sandbox_id != sandbox or target.record.process is None:
                    raise Invalid(
                        f"container {options.target_id} is not in this sandbox; its PID namespace cannot be shared"
                    )
                process = target.record.process
            case _:
                infra = self._sandboxes.infra_process(sandbox)
                if infra is None:
                    raise Invalid("the sandbox was made without a shared PID namespace")
                process = infra
        return f"/proc/{process.pid}/ns/pid", process

    def _write(self, work: "_Work") -> ContainerUser:
        record, config = work.record, work.config
        context = config.linux.security_context
        user = find_user(context, work.image.user, work.rootfs)
        spec = build_container(self._input(work, user))
        if asks_for_devices(config):
            # Imported only when used: it loads the YAML parser.
            from pykubelet.criserver.container.bundle.cdi import inject

            spec = inject(spec, devices_of(config), self._directories.cdi)
        if asks_for_classes(config, work.view.config):
            from pykubelet.criserver.container.bundle.apply_resource_classes import apply_classes

            spec = apply_classes(spec, config, work.view.config, self._directories.classes)
        if work.restore is not None:
            spec = self._restorer.check(work.restore, spec, self._directories.bundle(record.id))
        prepare.write_bundle(self._directories.bundle(record.id), spec)
        return user

    def _input(self, work: "_Work", user: ContainerUser) -> ContainerInput:
        given = ContainerInput(
            config=work.config,
            sandbox=work.view,
            image=work.image.defaults,
            user=user,
            rootfs=str(work.rootfs),
            cgroup=work.record.cgroup,
            host=self._host,
            pid_namespace=work.pid_namespace,
            devices=work.devices,
            mount_sources=work.sources,
            volumes=work.volumes,
        )
        return replace(given, seccomp=self._seccomp(given))

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
        return prepare.read_profile(self._directories.seccomp, profile.localhost_ref)


class _Work(Struct, frozen=True):
    """The input of ``_write``, gathered by ``make``."""

    record: ContainerRecord
    config: pb.ContainerConfig
    image: ImageFacts
    view: SandboxView
    rootfs: Path
    sources: dict[str, str]
    volumes: Mapping[str, str]
    pid_namespace: str | None
    devices: tuple[HostDevice, ...]
    restore: RestoredCheckpoint | None


def mounted_image(images: Images, mount: pb.Mount) -> ImageFacts:
    """Find the image that a mount names (KEP-4639). NotFound."""
    image = images.find(mount.image.image)
    if image is None:
        raise NotFound(f"image {mount.image.image!r} to be mounted on {mount.container_path} is not present")
    return image
