"""StopPodSandbox: containers are killed, then infra process, network and namespaces released. Steps are repeatable."""

import asyncio

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.sandbox.attachments import Attachments
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.layout import SandboxLayout, owner_of
from pykubelet.criserver.sandbox.sandbox_interfaces import Containers
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.types import SandboxPhase


class SandboxStopper:
    """Implementation of StopPodSandbox."""

    def __init__(
        self,
        *,
        table: SandboxTable,
        records: SandboxRecords,
        layout: SandboxLayout,
        attachments: Attachments,
        infra: Infra,
        containers: Containers,
    ) -> None:
        self._table = table
        self._records = records
        self._layout = layout
        self._attachments = attachments
        self._infra = infra
        self._containers = containers

    async def stop(self, identity: str) -> None:
        """Kill its containers and release its network. Idempotent; on an error, retry. No error if missing."""
        sandbox = self._table.find(identity)
        if sandbox is None:
            return
        async with sandbox.lock:
            if sandbox.record.phase is SandboxPhase.REMOVING:
                return
            was_ready = sandbox.ready
            await self.stop_held(sandbox)
        if was_ready:
            self._records.publish(sandbox, EventKind.STOPPED)

    async def stop_held(self, sandbox: Sandbox) -> None:
        """Like ``stop``, without the event; the caller holds the sandbox's lock."""
        sandbox.stopping = True
        try:
            await self._stop(sandbox)
        finally:
            sandbox.stopping = False

    async def _stop(self, sandbox: Sandbox) -> None:
        await self._containers.stop_all(sandbox.id)
        if sandbox.released:
            return
        await self._infra.stop(sandbox)
        if sandbox.ready:
            await self._records.note(sandbox, sandbox.moved(SandboxPhase.STOPPED))
        try:
            unmount = blocking.call_to_end(owner_of(sandbox.id), self._layout.files(sandbox.id).unmount)
            await asyncio.gather(self._attachments.detach(sandbox), unmount)
        except (PykubeletError, OSError):
            self._attachments.retry_later()
            raise
        if sandbox.record.ips:
            # Before its namespace is removed: with addresses in the record, plugins would be called for that namespace.
            await self._records.note(sandbox, sandbox.moved(SandboxPhase.STOPPED, ips=()))
        await self._layout.namespaces.release(sandbox.id)
        sandbox.released = True
