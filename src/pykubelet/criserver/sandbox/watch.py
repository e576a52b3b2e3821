"""Watches infra processes: a sandbox whose infra process ends by itself is stopped."""

import logging

from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import SandboxPhase

_log = logging.getLogger(__name__)


class InfraWatcher:
    """Watches the infra processes of ready sandboxes."""

    def __init__(self, *, table: SandboxTable, records: SandboxRecords, infra: Infra, scope: ServerScope) -> None:
        self._table = table
        self._infra = infra
        self._records = records
        self._scope = scope

    def watch(self, sandbox: Sandbox) -> None:
        """Watch its infra process, if it has one, in a task of the server. Returns at once."""
        if sandbox.record.infra is not None:
            self._scope.supervise("sandboxes.infra", lambda: self._follow(sandbox), f"infra-{sandbox.id[:13]}")

    async def _follow(self, sandbox: Sandbox) -> None:
        await self._infra.wait(sandbox)
        async with sandbox.lock:
            if not sandbox.ready or sandbox.id not in self._table:
                return
            _log.warning("sandbox stopped: its infra process has ended", extra={"sandbox": sandbox.id})
            await self._records.note(sandbox, sandbox.moved(SandboxPhase.STOPPED))
        self._records.publish(sandbox, EventKind.STOPPED)
