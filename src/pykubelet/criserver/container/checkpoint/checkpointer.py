"""CheckpointContainer: writes the state of a running container, which runs on afterwards.

A directory with the container's id exists as long as the container may be frozen: if this server does not succeed in
thawing it, the next one does.
"""

import asyncio
import json
import logging
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Conflict, Invalid, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.checkpoint import archive
from pykubelet.criserver.container.checkpoint.changed_files import write_diff
from pykubelet.criserver.container.container_interfaces import Directories, Sandboxes
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.directories import entries
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.checkpoint import pause, resume, write_checkpoint
from pykubelet.criserver.runtimes import MonitoredRuntime
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.storage.snapshots import writable_layer
from pykubelet.criserver.types import ContainerID

_log = logging.getLogger(__name__)
_CRIU = "criu"
_NOT_FROZEN = ("not paused", "does not exist", "No such file")
"""Messages of runc and crun for a container that is not frozen, or has ended. Any other failure may leave it frozen."""


class ContainerCheckpointer:
    """Implementation of CheckpointContainer."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        sandboxes: Sandboxes,
        directories: Directories,
        scope: ServerScope,
    ) -> None:
        self._table = table
        self._sandboxes = sandboxes
        self._directories = directories
        self._repairs = scope.repairs
        self._clock = scope.clock
        self._running: set[ContainerID] = set()
        self._frozen: set[ContainerID] = set()
        """Those that may be frozen, until they are known not to be."""

    async def checkpoint(self, identity: str, location: str, timeout: Seconds, status: str) -> None:
        """Write an archive; ``status`` is the container's CRI status as JSON, ``timeout`` 0 means no limit.

        Unsupported: CRIU is not installed, or the container cannot be checkpointed; Permanent: it is not running, or
        CRIU failed; Conflict: it is being checkpointed; Transient: it took too long.
        """
        container = self._table.running(identity)
        self._check(container, location)
        runtime = self._runtime(container)
        if runtime is None:
            raise Unsupported(
                f"container {container.id} is run by a shim or an unknown OCI runtime; only runc and crun are known to "
                "checkpoint containers"
            )
        if container.id in self._running:
            raise Conflict(f"container {container.id} is being checkpointed already")
        self._running.add(container.id)
        try:
            async with asyncio.timeout(timeout or None):
                await self._write(container, runtime, Path(location), status)
        except TimeoutError as error:
            raise Transient(f"the checkpoint of container {container.id} took over {timeout:g} s") from error
        finally:
            self._running.discard(container.id)
            if container.id in self._frozen:
                self._repairs.add("interrupted checkpoint", container.id, partial(self._undo, container.id))
        _log.info("checkpoint written", extra={"container": container.id, "archive": location})

    def recover(self) -> None:
        """Thaw the containers that a former server froze for a checkpoint, and remove the files. Blocking."""
        for directory in entries(self._directories.checkpoints):
            identity = ContainerID(directory.name)
            self._repairs.add("interrupted checkpoint", identity, partial(self._undo, identity))

    async def _undo(self, identity: ContainerID) -> None:
        if identity in self._running:
            raise Conflict(f"container {identity} is being checkpointed again")
        self._running.add(identity)
        try:
            container = self._table.find(identity)
            runtime = self._runtime(container) if container is not None else None
            if runtime is not None:
                await self._thaw(runtime, identity)
            self._frozen.discard(identity)
            await self._remove(identity)
        finally:
            self._running.discard(identity)

    async def _thaw(self, runtime: OciRuntime, identity: ContainerID) -> None:
        """Resume a container; a container that is not frozen, or has ended, is left alone."""
        try:
            await resume(runtime, identity)
        except (PykubeletError, OSError) as error:
            found = {"container": identity, "error": str(error)}
            if not isinstance(error, Permanent) or not any(words in str(error) for words in _NOT_FROZEN):
                _log.error("cannot resume a container after its checkpoint: trying again", extra=found)
                raise
            _log.debug("container not resumed", extra=found)
        self._frozen.discard(identity)

    async def _remove(self, identity: ContainerID) -> None:
        path = str(self._directories.checkpoints / identity)
        await blocking.call_to_end(f"checkpoint/{identity}", remove_any, path, deadline=None)

    def _runtime(self, container: Container) -> OciRuntime | None:
        """The program that runs the container, if it is known to checkpoint."""
        runtime = self._sandboxes.runtime(container.record.sandbox_id)
        return runtime.oci if isinstance(runtime, MonitoredRuntime) and runtime.known else None

    def _check(self, container: Container, location: str) -> None:
        if not location.startswith("/"):
            raise Invalid(f"the location of a checkpoint must be an absolute path, not {location!r}")
        if shutil.which(_CRIU) is None:
            raise Unsupported(
                f"container {container.id} cannot be checkpointed: criu is not installed (https://criu.org), or not on "
                "the PATH of the runtime server"
            )
        if self._sandboxes.view(container.record.sandbox_id).user is not None:
            raise Unsupported(f"container {container.id} has a user namespace; such containers cannot be checkpointed")

    async def _write(self, container: Container, runtime: OciRuntime, location: Path, status: str) -> None:
        identity, owner = container.id, f"checkpoint/{container.id}"
        directory = self._directories.checkpoints / identity
        await self._remove(identity)
        await blocking.call_to_end(owner, partial(directory.mkdir, 0o700, parents=True))
        try:
            try:
                self._frozen.add(identity)
                await pause(runtime, identity)
                await write_checkpoint(runtime, identity, directory / archive.CHECKPOINT, work=directory)
                upper = writable_layer(self._directories.root_filesystems, identity)
                await blocking.call_to_end(owner, write_diff, upper, directory / archive.DIFF, deadline=None)
                # Not later: a restored container continues it.
                if container.record.log_path:
                    log = Path(container.record.log_path)
                    await blocking.call_to_end(owner, archive.copy_log, log, directory / archive.LOG)
            finally:
                await shielded(lambda: self._thaw(runtime, identity))
            await blocking.call_to_end(owner, self._describe, container, runtime, directory, status)
            await blocking.call_to_end(owner, archive.write_archive, directory, location, deadline=None)
        finally:
            if identity not in self._frozen:
                await shielded(lambda: self._remove(identity))

    def _describe(self, container: Container, runtime: OciRuntime, directory: Path, status: str) -> None:
        record, image = container.record, container.config.image
        name = image.user_specified_image or image.image
        described = {
            "id": record.id,
            "name": container.config.metadata.name,
            "rootfsImage": name,
            "rootfsImageRef": record.image_ref,
            "rootfsImageName": name,
            "runtime": Path(runtime.path).name,
            "createdTime": _time(record.created_at / 1e9),
            "checkpointedTime": _time(self._clock.now()),
            "restoredTime": _time(0),
            "restored": False,
        }
        write_atomic(directory / archive.CONFIG, json.dumps(described).encode())
        write_atomic(directory / archive.STATUS, status.encode())
        shutil.copyfile(self._directories.bundle(record.id) / "config.json", directory / archive.SPEC)


def _time(seconds: Seconds) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
