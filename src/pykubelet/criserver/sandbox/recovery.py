"""Recovery of sandboxes when the server starts, and later retries of addresses that could not be released."""

import logging
from functools import partial

from pykubelet.base import blocking
from pykubelet.base.backoff import Backoff
from pykubelet.base.guard import Guard
from pykubelet.criserver.directories import entries
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.interfaces import SandboxDeps
from pykubelet.criserver.sandbox.manager import SandboxManager
from pykubelet.criserver.sandbox.state import Sandbox
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase, SandboxRecord

_log = logging.getLogger(__name__)
_OWNER = "start-up"


class SandboxRecovery:
    """Recovery in order: ``recover``, the containers' recovery, ``clean_up``; then ``retry_network`` runs as a task."""

    def __init__(self, manager: SandboxManager, deps: SandboxDeps, repairs: Repairs) -> None:
        self._manager = manager
        self._deps = deps
        self._repairs = repairs
        self._protected = ProtectedIds()

    def recover(self, records: list[SandboxRecord]) -> None:
        """Add all records."""
        for record in records:
            self._manager.adopt(record)

    async def rootfs_names(self) -> list[str]:
        """The snapshot names of the infra processes' root file systems."""
        places = await blocking.call(_OWNER, lambda: list(self._deps.directories.sandboxes.glob("*/infra")))
        return [place.parent.name for place in places]

    async def clean_up(self, protected: ProtectedIds) -> None:
        """Start the repairs of sandboxes: undo partial creations, finish removals, verify ready ones; and remove
        namespaces and files without a sandbox unless they are protected."""
        self._protected = protected
        for sandbox in self._manager.known().values():
            self._repairs.add("sandbox", sandbox.id, partial(self._repair, sandbox))
        for orphan in await blocking.call(_OWNER, self._deps.namespaces.known):
            if self._is_orphan(orphan):
                release = partial(self._deps.namespaces.release, orphan)
                self._repairs.add("namespaces of an unknown sandbox", orphan, release)
        for directory in await blocking.call(_OWNER, entries, self._deps.directories.sandboxes):
            if self._is_orphan(SandboxID(directory.name)):
                remove = partial(blocking.call, f"sandbox/{directory.name}", SandboxFiles(directory).remove)
                self._repairs.add("files of an unknown sandbox", directory.name, remove)
        self._manager.leftovers.set()

    async def _repair(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            if sandbox.id not in self._manager.known():
                return  # a client has removed it meanwhile
            match sandbox.record.phase:
                case SandboxPhase.MAKING | SandboxPhase.REMOVING:
                    _log.info("undoing an interrupted creation or removal of a sandbox", extra={"sandbox": sandbox.id})
                    await self._manager.undo(sandbox)
                case SandboxPhase.READY:
                    await self._manager.verify(sandbox)
                case SandboxPhase.STOPPED:
                    pass

    async def retry_network(self) -> None:
        """Release addresses of removed or stopped sandboxes whose release failed; runs until cancelled."""
        backoff = Backoff(1.0, 60.0, 2.0, 300.0, 0.1)
        guard = Guard("sandboxes.addresses", self._deps.clock.monotonic)
        while True:
            await self._manager.leftovers.wait()
            self._manager.leftovers.clear()
            while stale := self._stale_attachments():
                for sandbox in stale:
                    with guard.item(sandbox):
                        await self._deps.network.detach(sandbox)
                if self._stale_attachments():
                    await self._deps.clock.sleep(backoff.next("network", self._deps.clock.monotonic()))
            backoff.reset("network")

    def _stale_attachments(self) -> list[SandboxID]:
        return [each for each in self._deps.network.held() if not self._uses_network(each)]

    def _uses_network(self, sandbox: SandboxID) -> bool:
        found = self._manager.known().get(sandbox)
        if found is None:
            return sandbox in self._protected
        return found.record.phase in (SandboxPhase.MAKING, SandboxPhase.READY)

    def _is_orphan(self, sandbox: SandboxID) -> bool:
        return sandbox not in self._manager.known() and sandbox not in self._protected
