"""CreateContainer: builds a record, a root file system and a bundle from a request. No process is started."""

import logging
import os.path

from msgspec import Struct

from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.criserver.config.host_facts import cgroup_of
from pykubelet.criserver.container.bundle.bundle_maker import BundleMaker, mounted_image
from pykubelet.criserver.container.checkpoint.restorer import RestoredCheckpoint, Restorer
from pykubelet.criserver.container.container_interfaces import ImageFacts, Images, Sandboxes
from pykubelet.criserver.container.plan.lifecycle import id_for_retry
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.remove import ContainerRemover
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.spec import userns
from pykubelet.criserver.spec.signals import signal_number, stop_signal
from pykubelet.criserver.types import (
    ContainerID,
    ContainerPhase,
    ContainerRecord,
    SandboxID,
    new_id,
    request_digest,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class ContainerCreator:
    """Implementation of CreateContainer."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        records: ContainerRecords,
        sandboxes: Sandboxes,
        images: Images,
        bundles: BundleMaker,
        remover: ContainerRemover,
        launcher: Launcher,
        restorer: Restorer,
    ) -> None:
        self._table = table
        self._records = records
        self._sandboxes = sandboxes
        self._images = images
        self._bundles = bundles
        self._remover = remover
        self._launcher = launcher
        self._restorer = restorer

    async def create(self, sandbox: SandboxID, config: pb.ContainerConfig) -> ContainerID:
        """Create a container, and begin to pre-launch it. A retry gets the first one unless that was started.

        Errors: NotFound, Invalid, Conflict (the name is taken), Permanent, Transient.
        """
        name, request = _name(config), request_digest(config)
        await self._clear(sandbox, name)
        self._sandboxes.check_ready(sandbox)
        if holder := self._holder(sandbox, name):
            return id_for_retry(holder.record, request)
        identity = ContainerID(new_id())
        restore = await self._restorer.open(identity, sandbox, config)
        if restore is None:
            return await self._create(_ContainerRequest(identity, sandbox, config, request))
        made = None
        try:
            made = await self._create(_ContainerRequest(identity, sandbox, restore.config(config), request, restore))
            return made
        finally:
            if made != identity:
                await shielded(lambda: self._restorer.drop(identity))

    async def _create(self, asked: "_ContainerRequest") -> ContainerID:
        record, image = self._draft(asked)
        if holder := self._holder(asked.sandbox, record.name):
            return id_for_retry(holder.record, asked.request)
        # Nothing is awaited before the call is registered: either a stop of the sandbox sees it, or it sees the stop.
        container = self._table.add(record)
        container.launched = False
        try:
            with container.in_progress.call(f"the creation of container {record.name}"):
                await self._records.insert(record)
                bundle = await self._bundles.make(record, asked.config, image, asked.restore)
                made = {"user": bundle.user, "namespace_process": bundle.namespace_process}
                await self._records.put(container, container.moved(ContainerPhase.CREATED, **made))
        except BaseException:
            await shielded(lambda: self._undo(container, record))
            raise
        self._records.publish(container.record, EventKind.CREATED, record.created_at)
        self._launcher.begin(container)
        return container.id

    def _holder(self, sandbox: SandboxID, name: str) -> Container | None:
        """The container of the sandbox that has the name."""
        return next((each for each in self._table.of_sandbox(sandbox) if each.record.name == name), None)

    async def _clear(self, sandbox: SandboxID, name: str) -> None:
        """Finish the removal of a container that still holds the name because its removal failed."""
        for holder in self._table.of_sandbox(sandbox):
            if holder.record.name == name and holder.leftover:
                await self._remover.discard(holder)

    async def _undo(self, container: Container, drafted: ContainerRecord) -> None:
        """Remove a container whose creation failed, unless another call has started it meanwhile."""
        try:
            async with container.lock:
                if container.record.phase in (ContainerPhase.MAKING, ContainerPhase.CREATED):
                    # Partially created: no client sees it, and the next server removes it.
                    await self._records.note(container, drafted)
                if container.unfinished:
                    await self._remover.purge(container)
        except (PykubeletError, OSError) as error:
            # Retried by the next creation of this name, by the removal of the sandbox, and by the next server.
            extra = {"container": container.id, "error": str(error)}
            _log.warning("cannot remove a container whose creation failed: retrying later", extra=extra)

    def _draft(self, asked: "_ContainerRequest") -> tuple[ContainerRecord, ImageFacts]:
        """Draft the record that reserves the name. NotFound: sandbox, image; Permanent: sandbox not ready; Invalid."""
        sandbox, config = asked.sandbox, asked.config
        view = self._sandboxes.view(sandbox)
        if not config.metadata.name:
            raise Invalid("a container needs a name (metadata.name)")
        userns.check_container(config.linux.security_context.namespace_options, view.user.ids if view.user else None)
        image = asked.restore.base if asked.restore else self._images.find(config.image.image)
        if image is None:
            raise NotFound(
                f"image {config.image.image!r} of container {config.metadata.name} is not present; pull it first"
            )
        if image.artifact_type:
            raise Invalid(
                f"image {config.image.image!r} of container {config.metadata.name} is an artifact of type "
                f"{image.artifact_type}, not a container image; mount it as a volume of the pod (volumes: image)"
            )
        signal_name = stop_signal(config, image.stop_signal)
        signal_number(signal_name)
        runtime = self._sandboxes.runtime(sandbox)
        record = ContainerRecord(
            id=asked.identity,
            name=_name(config),
            sandbox_id=sandbox,
            config=self._resolved(config).SerializeToString(),
            created_at=self._records.creation_time(sandbox),
            image_id=image.id,
            image_ref=image.reference,
            log_path=_log_path(view.config.log_directory, config.log_path),
            cgroup=cgroup_of(view.config.linux.cgroup_parent, asked.identity, runtime.systemd),
            stop_signal=signal_name,
            request=asked.request,
            restore=str(asked.restore.images) if asked.restore else "",
        )
        return record, image

    def _resolved(self, config: pb.ContainerConfig) -> pb.ContainerConfig:
        """Return the request with the ids of mounted images filled in, as ContainerStatus returns them (KEP-5365)."""
        resolved = pb.ContainerConfig()
        resolved.CopyFrom(config)
        for mount in resolved.mounts:
            if mount.HasField("image"):
                mount.image.image_ref = mounted_image(self._images, mount).id
        return resolved


class _ContainerRequest(Struct, frozen=True):
    """A request for a container."""

    identity: ContainerID
    sandbox: SandboxID
    config: pb.ContainerConfig
    request: str
    """Its digest."""
    restore: RestoredCheckpoint | None = None
    """The checkpoint that it is restored from."""


def _name(config: pb.ContainerConfig) -> str:
    """The unique name in a sandbox: name and attempt."""
    return f"{config.metadata.name}_{config.metadata.attempt}"


def _log_path(directory: str, name: str) -> str:
    if not directory or not name:
        return ""
    if ".." in name.split("/") or name.startswith("/"):
        raise Invalid(f"log path {name!r} must be relative and stay in the pod's log directory")
    path = f"{directory.rstrip('/')}/{name}"
    if os.path.normpath(path).lstrip("/").startswith("dev/"):
        raise Invalid(f"log path {path!r}: a log replaces what has its name, which must not be below /dev")
    return path
