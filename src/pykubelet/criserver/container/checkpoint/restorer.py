"""CreateContainer from a checkpoint: an archive on the node, or an image with the files of one (KEP-2008).

The container is made as its request says, of the image that the checkpoint names; then the files that the dumped
container had changed are applied, and StartContainer has CRIU restore the processes. Until then a directory with the
container's id has the files of an archive, and a mount those of an image.
"""

import asyncio
import logging
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Unsupported
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.checkpoint import archive
from pykubelet.criserver.container.checkpoint.changed_files import MAX_FILES as MAX_CHANGED
from pykubelet.criserver.container.checkpoint.dump_files import (
    MAX_FILES,
    CheckedImages,
    continue_log,
    open_archive,
    open_deletions,
    open_diff,
    read_dump,
)
from pykubelet.criserver.container.checkpoint.plan.dumped import CheckpointDump, check_fits
from pykubelet.criserver.container.checkpoint.plan.image_check import check_images
from pykubelet.criserver.container.container_interfaces import Directories, ImageFacts, Images, Sandboxes
from pykubelet.criserver.container.state.container_state import checkpoint_mount
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.directories import entries
from pykubelet.criserver.runtimes import MonitoredRuntime
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.storage.unpacking import unpack_archive
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_CRIU: Final = "criu"
_OPEN: Final[Seconds] = 30.0
_SETTING: Final = "enable_experimental_restore_via_create"
_CRIU_CONFIG: Final = "org.criu.config"
"""The annotation by which runc and crun find options for CRIU."""
_OPTIONS: Final = b"tcp-close\n"
"""The addresses of the new pod are others: its processes find their connections closed."""
_UNPACKED_AT_ONCE: Final = 2
"""Workers that unpack checkpoints; each may use 1.25 GiB of memory."""
_OF_ARCHIVE: Final = Limits(max_entries=MAX_FILES, max_inodes=MAX_FILES, only_files=True, reserve=archive.RESERVED)
_OF_CHANGES: Final = Limits(
    max_entries=2 * MAX_CHANGED,
    max_inodes=2 * MAX_CHANGED,
    reserve=archive.RESERVED,
)
"""An entry may have an extended header, which counts too, and a removed directory costs as many as it has files."""
_NEEDED: Final = (ContainerPhase.MAKING, ContainerPhase.CREATED)


class RestoredCheckpoint(Struct, frozen=True):
    """A checkpoint that a container is being created from."""

    name: str
    """The path of the archive, or the image."""
    directory: Path
    """Its files, which were checked."""
    dumped: CheckpointDump
    base: ImageFacts
    """The image of which the dumped container was made."""

    @property
    def images(self) -> Path:
        """The directory of CRIU's images."""
        return self.directory / archive.CHECKPOINT

    def config(self, asked: pb.ContainerConfig) -> pb.ContainerConfig:
        """Return the request with the image of the root file system, and what containerd notes of a restored one."""
        changed = pb.ContainerConfig()
        changed.CopyFrom(asked)
        name = asked.image.user_specified_image or self.name
        changed.image.CopyFrom(pb.ImageSpec(image=self.base.reference, annotations=asked.image.annotations))
        noted = {"restored": "true", "checkpointedAt": self.dumped.described.shown_at, "checkpointImage": name}
        for key, value in noted.items():
            changed.annotations[key] = value
        return changed


class Restorer:
    """The part of CreateContainer for checkpoints."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        images: Images,
        sandboxes: Sandboxes,
        directories: Directories,
        scope: ServerScope,
    ) -> None:
        self._table = table
        self._images = images
        self._sandboxes = sandboxes
        self._directories = directories
        self._repairs = scope.repairs
        self._unpacking = asyncio.Semaphore(_UNPACKED_AT_ONCE)

    async def open(
        self, identity: ContainerID, sandbox: SandboxID, config: pb.ContainerConfig
    ) -> RestoredCheckpoint | None:
        """Read the checkpoint that a request names as its image; None: it names an ordinary image.

        A caller that fails must ``drop`` it. Errors: Unsupported: restoring is disabled or impossible; Invalid: it is
        not a checkpoint; NotFound; the errors of a pull of its base image.
        """
        name = config.image.image
        image = None if name.startswith("/") else self._images.find(name)
        if not name.startswith("/") and (image is None or not image.checkpoint):
            return None
        what = f"checkpoint {config.image.user_specified_image or name}"
        self._check(sandbox, what)
        try:
            return await self._open(identity, image, config, what)
        except BaseException:
            await shielded(lambda: self.drop(identity))
            raise

    async def apply(self, restore: RestoredCheckpoint, record: ContainerRecord, rootfs: Path) -> None:
        """Apply the changed files to the root file system, which nothing uses yet. Invalid: they are no layer."""
        owner, what = _owner(record.id), f"checkpoint {restore.name}"
        for opening in (partial(open_diff, restore.directory), partial(open_deletions, restore.directory, what)):
            opened = await blocking.call_to_end(owner, opening)
            if opened is not None:
                try:
                    async with self._unpacking:
                        changes = f"{what}: its changed files"
                        await unpack_archive(opened, changes, rootfs, merged=True, limits=_OF_CHANGES)
                finally:
                    os.close(opened)

    async def continue_log(self, restore: RestoredCheckpoint, record: ContainerRecord) -> None:
        """Begin the log of the container with that of the checkpoint."""
        if record.log_path:
            await blocking.call_to_end(_owner(record.id), continue_log, restore.directory, Path(record.log_path))

    def check(self, restore: RestoredCheckpoint, spec: Json, bundle: Path) -> Json:
        """Return the specification with options for CRIU. Invalid: the checkpoint does not fit. Blocks briefly."""
        what = f"checkpoint {restore.name}"
        check_fits(restore.dumped, spec, what)
        images = CheckedImages(directory=restore.images, what=what)
        check_images(images.names, images.read, spec, what)
        options = bundle / "criu.conf"
        bundle.mkdir(0o700, exist_ok=True)
        write_atomic(options, _OPTIONS)
        annotations = spec.get("annotations")
        known = annotations if isinstance(annotations, dict) else {}
        return spec | {"annotations": known | {_CRIU_CONFIG: str(options)}}

    async def _release(self, identity: ContainerID) -> None:
        await self._images.release(checkpoint_mount(identity))
        path = str(self._directories.restores / identity)
        await blocking.call_to_end(_owner(identity), remove_any, path, deadline=None)

    def recover(self) -> None:
        """Remove the files of checkpoints that no container needs any more. Blocking."""
        for directory in entries(self._directories.restores):
            identity = ContainerID(directory.name)
            self._repairs.add("files of a restored checkpoint", identity, partial(self._sweep, identity))

    async def _sweep(self, identity: ContainerID) -> None:
        needing = (each for each in self._table if each.record.phase in _NEEDED and each.record.restore)
        if identity not in {each.id for each in needing}:
            await self._release(identity)

    async def drop(self, identity: ContainerID) -> None:
        """Remove the files of a checkpoint that is not needed any more; a failure is logged, and retried later."""
        try:
            await self._release(identity)
        except (PykubeletError, OSError) as error:
            # Retried when the container is removed, and by the next server.
            extra = {"container": identity, "error": str(error)}
            _log.warning("cannot remove the files of a checkpoint: retrying later", extra=extra)

    def _check(self, sandbox: SandboxID, what: str) -> None:
        """Unsupported: restoring is disabled, or this pod's containers cannot be restored."""
        if not self._directories.may_restore:
            raise Unsupported(
                f"{what}: restoring containers is disabled; read docs/security.md, then set {_SETTING} = true in the "
                "configuration of the runtime server"
            )
        if shutil.which(_CRIU) is None:
            raise Unsupported(
                f"{what} cannot be restored: criu is not installed (https://criu.org), or not on the PATH of the "
                "runtime server"
            )
        runtime = self._sandboxes.runtime(sandbox)
        if not (isinstance(runtime, MonitoredRuntime) and runtime.known):
            raise Unsupported(f"{what} cannot be restored: only runc and crun are known to restore containers")
        if self._sandboxes.view(sandbox).user is not None:
            raise Unsupported(f"{what} cannot be restored in a pod with a user namespace (hostUsers: false)")

    async def _open(
        self, identity: ContainerID, image: ImageFacts | None, config: pb.ContainerConfig, what: str
    ) -> RestoredCheckpoint:
        name = config.image.image
        if image is None:
            directory = await self._unpack(identity, name, what)
        else:
            await self._images.check_use(image.id, config.image.user_specified_image or name)
            directory = await self._images.prepare(image.id, checkpoint_mount(identity), None)
        dumped = await blocking.call_to_end(_owner(identity), read_dump, directory, what)
        return RestoredCheckpoint(name, directory, dumped, await self._base(dumped.described.base, what))

    async def _unpack(self, identity: ContainerID, path: str, what: str) -> Path:
        directory = self._directories.restores / identity
        await blocking.call_to_end(_owner(identity), partial(directory.mkdir, 0o700, parents=True))
        fd = await blocking.call(f"checkpoint/{path}", open_archive, path, deadline=_OPEN)
        try:
            async with self._unpacking:
                await unpack_archive(fd, what, directory, merged=False, limits=_OF_ARCHIVE)
        finally:
            os.close(fd)
        return directory

    async def _base(self, reference: str, what: str) -> ImageFacts:
        """Find the image of which the dumped container was made; like containerd, pull it if it is not present."""
        found = self._images.find(reference)
        if found is None and "@" in reference:
            await self._images.pull(reference)
            found = self._images.find(reference)
        if found is None:
            raise NotFound(f"{what}: its base image {reference!r} is not present; pull it first")
        if found.artifact_type or found.checkpoint:
            raise Invalid(f"{what}: its base image {reference!r} is not a container image")
        return found


def _owner(identity: ContainerID) -> str:
    return f"restore/{identity}"
