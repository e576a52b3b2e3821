"""The records of sandboxes: the only way to change one is in the database first, then in memory."""

from pykubelet.base.shield import shielded
from pykubelet.criserver.events import Event, EventKind
from pykubelet.criserver.sandbox.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.table import SandboxTable
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import SandboxRecord


class SandboxRecords:
    """Changes of records, and the events about them. A change is not interrupted if its caller is cancelled."""

    def __init__(self, *, store: Store, table: SandboxTable, scope: ServerScope) -> None:
        self._store = store
        self._table = table
        self._scope = scope

    async def insert(self, sandbox: Sandbox) -> None:
        """Store the record of a new sandbox, before it has any effect on the machine. Transient: the disk is full."""
        await self._store.add_sandbox(sandbox.record)

    async def put(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        """Replace the record. Nothing was changed after Transient: the disk is full; Permanent: an impossible phase."""
        sandbox.check(record)

        async def work() -> None:
            await self._store.put_sandbox(record)
            sandbox.record = record

        await shielded(work)

    async def note(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        """Replace the record; deferred if the disk is full, since the next server sees the change on the machine.

        Permanent: the phase is impossible; nothing was changed.
        """
        sandbox.check(record)

        async def work() -> None:
            await self._store.note_sandbox(record)
            sandbox.record = record

        await shielded(work)

    async def delete(self, sandbox: Sandbox) -> None:
        """Delete the record with those of its containers, and drop the sandbox from the table."""
        await self._store.delete_sandbox(sandbox.id)
        self._table.drop(sandbox.id)

    def creation_time(self, uid: str) -> int:
        """The creation time of a new sandbox, in ns: now, but after the pod's others even if the clock was set back."""
        earlier = (each.record.created_at for each in self._table if each.config.metadata.uid == uid)
        return max((self._scope.now(), *(at + 1 for at in earlier)))

    def publish(self, sandbox: Sandbox, kind: EventKind) -> None:
        """Publish an event to the subscribers."""
        self._scope.events.publish(Event(sandbox.id, sandbox.id, kind, self._scope.now()))
