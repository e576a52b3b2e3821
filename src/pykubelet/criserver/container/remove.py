"""RemoveContainer. All methods are idempotent."""

from pykubelet.criserver.container.container_interfaces import Images
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.container.stop import ContainerStopper
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.types import ContainerPhase

_REMOVED = "it was removed meanwhile"
_SANDBOX_REMOVED = "its sandbox was removed meanwhile"


class ContainerRemover:
    """Implementation of RemoveContainer."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        records: ContainerRecords,
        stopper: ContainerStopper,
        launcher: Launcher,
        cleanup: Cleanup,
        images: Images,
    ) -> None:
        self._table = table
        self._records = records
        self._stopper = stopper
        self._launcher = launcher
        self._cleanup = cleanup
        self._images = images

    async def remove(self, identity: str) -> None:
        """Remove a container; a running one is killed. No error if it does not exist.

        Its files are deleted in the background; the call waits for that only if the disk is short of space.
        """
        container = self._table.find(identity)
        if container is not None:
            await self.discard(container)
            await self._images.make_room()

    async def discard(self, container: Container, *, with_sandbox: bool = False) -> None:
        """Remove a container in any phase; a running one is killed first.

        ``with_sandbox``: its sandbox is in the removing phase, and the record is deleted with that of the sandbox.
        """
        while container in self._table:
            await self._stopper.end(container, 0, _SANDBOX_REMOVED if with_sandbox else _REMOVED)
            async with container.lock:
                # It may have been started since; a container starts only once, so this loop ends.
                if not container.running and container in self._table:
                    await self._remove_stopped(container, with_sandbox=with_sandbox)

    async def purge(self, container: Container) -> None:
        """Remove all resources and the record of a container that is being removed or created."""
        await self._remove_resources(container)
        await self._records.delete(container)

    async def _remove_stopped(self, container: Container, *, with_sandbox: bool) -> None:
        was_made = container.record.phase is not ContainerPhase.MAKING
        removing = container.moved(ContainerPhase.REMOVING)
        if with_sandbox:
            container.record = removing
            await self._remove_resources(container)
            self._table.drop(container)
        else:
            await self._records.note(container, removing)
            await self.purge(container)
        if was_made:
            self._records.publish(container.record, EventKind.DELETED, self._records.now())

    async def _remove_resources(self, container: Container) -> None:
        """Remove everything but its record."""
        await self._launcher.undo(container)
        if container.launched:
            await self._cleanup.undo_start(container, self._launcher.runtime(container))
        for name in container.image_mounts:
            await self._images.release(name)
        await self._images.release(container.id)
        await self._cleanup.remove_files(container)
