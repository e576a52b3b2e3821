"""The records of sandboxes: the only way to change one is in the database first, then in memory."""

from pykubelet.criserver.event_hub import Event, EventKind
from pykubelet.criserver.record_store import RecordChanges, StoredRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import SandboxRecord


class SandboxRecords(RecordChanges[SandboxRecord]):
    """Changes of records, and the events about them."""

    def __init__(self, *, stored: StoredRecords[SandboxRecord], table: SandboxTable, scope: ServerScope) -> None:
        super().__init__(stored)
        self._table = table
        self._scope = scope

    async def insert(self, sandbox: Sandbox) -> None:
        """Store the record of a new sandbox, before it has any effect on the machine. Transient: the disk is full."""
        await self._stored.add(sandbox.record)

    async def delete(self, sandbox: Sandbox) -> None:
        """Delete the record with those of its containers, and drop the sandbox from the table."""
        await self._stored.delete(sandbox.id)
        self._table.drop(sandbox.id)

    def creation_time(self, uid: str) -> int:
        """The creation time of a new sandbox, in ns: now, but after the pod's others even if the clock was set back."""
        earlier = (each.record.created_at for each in self._table if each.config.metadata.uid == uid)
        return max((self._scope.now(), *(at + 1 for at in earlier)))

    def publish(self, sandbox: Sandbox, kind: EventKind) -> None:
        """Publish an event to the subscribers."""
        self._scope.events.publish(Event(sandbox.id, sandbox.id, kind, self._scope.now()))
