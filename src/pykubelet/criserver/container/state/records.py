"""The records of containers: the only way to change one is in the database first, then in memory."""

from typing import Final

from pykubelet.base.concurrency.shield import shielded
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.event_hub import Event, EventKind
from pykubelet.criserver.record_store import RecordChanges, StoredRecords
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerRecord, SandboxID


class ContainerRecords(RecordChanges[ContainerRecord]):
    """Changes of records, and the events about them."""

    def __init__(self, *, stored: StoredRecords[ContainerRecord], table: ContainerTable, scope: ServerScope) -> None:
        super().__init__(stored)
        self.table: Final = table
        """The containers in memory."""
        self._scope = scope

    async def insert(self, record: ContainerRecord) -> None:
        """Store the record of a new container, before it has any effect on the machine. Transient: the disk is full."""
        await self._stored.add(record)

    async def delete(self, container: Container) -> None:
        """Delete the record, deferred if the disk is full, and drop the container from the table."""

        async def work() -> None:
            await self._stored.delete(container.id)
            self.table.drop(container)

        await shielded(work)

    def creation_time(self, sandbox: SandboxID) -> int:
        """The creation time of a new container, in ns: now, but after the sandbox's others if the clock went back."""
        return max(self.now(), *(each.record.created_at + 1 for each in self.table.of_sandbox(sandbox)), 0)

    def publish(self, record: ContainerRecord, kind: EventKind, at: int) -> None:
        """Publish an event of the time ``at`` in ns to the subscribers."""
        self._scope.events.publish(Event(record.id, record.sandbox_id, kind, at))

    def now(self) -> int:
        """Nanoseconds since the epoch."""
        return self._scope.now()
