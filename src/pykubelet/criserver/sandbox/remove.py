"""RemovePodSandbox, and the removal of partially created sandboxes. Every step is repeatable."""

import logging
from functools import partial

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.sandbox.attachments import Attachments
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.layout import SandboxLayout, owner_of
from pykubelet.criserver.sandbox.sandbox_interfaces import Containers
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.sandbox.stop import SandboxStopper
from pykubelet.criserver.types import SandboxPhase

_log = logging.getLogger(__name__)


class SandboxRemover:
    """Implementation of RemovePodSandbox."""

    def __init__(
        self,
        *,
        table: SandboxTable,
        records: SandboxRecords,
        layout: SandboxLayout,
        attachments: Attachments,
        infra: Infra,
        containers: Containers,
        stopper: SandboxStopper,
    ) -> None:
        self._table = table
        self._records = records
        self._layout = layout
        self._attachments = attachments
        self._infra = infra
        self._containers = containers
        self._stopper = stopper

    async def remove(self, identity: str) -> None:
        """Stop and remove a sandbox with its containers; no error if it does not exist."""
        sandbox = self._table.find(identity)
        if sandbox is None:
            return
        async with sandbox.lock:
            if sandbox.id not in self._table:
                return
            if sandbox.record.phase is not SandboxPhase.REMOVING:
                await self._stopper.stop_held(sandbox)
            await self._records.note(sandbox, sandbox.moved(SandboxPhase.REMOVING))
            await self._purge(sandbox)
        self._records.publish(sandbox, EventKind.DELETED)

    async def undo(self, sandbox: Sandbox) -> None:
        """Remove all resources and the record of a sandbox whose creation or removal failed or was interrupted.

        The caller holds the sandbox's lock. Not interrupted if the caller is cancelled.
        """

        async def work() -> None:
            if sandbox.ready:
                # The call that created it was cancelled at its end: no client may use what a failure below leaves.
                await self._records.note(sandbox, sandbox.moved(SandboxPhase.REMOVING))
            await self._containers.remove_all(sandbox.id)
            held = False
            try:
                await self._attachments.detach(sandbox)
            except PykubeletError as error:
                held = True
                _log.warning(
                    "cannot release a network address: retrying", extra={"sandbox": sandbox.id, "error": str(error)}
                )
            try:
                await self._purge(sandbox)
            finally:
                if held:
                    # Not earlier: an address is a leftover only when its sandbox has been removed.
                    self._attachments.retry_later()

        await shielded(work)

    async def _purge(self, sandbox: Sandbox) -> None:
        await self._containers.remove_all(sandbox.id)
        if not sandbox.released:
            await self._infra.stop(sandbox)
            await self._layout.namespaces.release(sandbox.id)
        remove = partial(self._layout.files(sandbox.id).remove, mounted=not sandbox.released)
        await blocking.call_to_end(owner_of(sandbox.id), remove)
        await self._records.delete(sandbox)
