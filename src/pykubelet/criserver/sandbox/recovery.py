"""At start: sandboxes are compared with the machine. Later: addresses that could not be released are tried again."""

import asyncio
import logging
from pathlib import Path

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.manager import SandboxManager
from pykubelet.criserver.sandbox.ports import SandboxDeps
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord, Spared

_log = logging.getLogger(__name__)


class SandboxRecovery:
    """``recover``, then the containers' recovery, then ``tidy``; ``retry_network`` runs for ever."""

    def __init__(self, manager: SandboxManager, deps: SandboxDeps) -> None:
        self._manager = manager
        self._deps = deps
        self._spared = Spared()

    def recover(self, records: list[SandboxRecord]) -> None:
        """Take in what is remembered."""
        for record in records:
            self._manager.adopt(record)

    async def rootfs_names(self) -> list[str]:
        """The names under which infra processes hold root file systems."""
        places = await asyncio.to_thread(lambda: list(self._deps.folders.sandboxes.glob("*/infra")))
        return [place.parent.name for place in places]

    async def tidy(self, spared: Spared) -> None:
        """Undo half-made sandboxes, finish removals, see which are still whole, and remove what belongs to none."""
        self._spared = spared
        for sandbox in self._manager.known().values():
            match sandbox.record.phase:
                case SandboxPhase.MAKING | SandboxPhase.REMOVING:
                    _log.info("undoing a sandbox that was cut", extra={"sandbox": sandbox.id})
                    await self._manager.undo(sandbox)
                case SandboxPhase.READY:
                    await self._manager.look_at(sandbox)
                case SandboxPhase.STOPPED:
                    pass
        for stray in self._deps.namespaces.known():
            if self._is_nobodys(stray):
                await self._deps.namespaces.release(stray)
        for folder in await asyncio.to_thread(_folders, self._deps.folders.sandboxes):
            if self._is_nobodys(SandboxID(folder.name)):
                await asyncio.to_thread(SandboxFiles(folder).remove)
        self._manager.leftovers.set()

    async def retry_network(self) -> None:
        """For ever: take back addresses whose release failed, of sandboxes that are gone or stopped."""
        backoff = Backoff(1.0, 60.0, 2.0, 300.0, 0.1)
        while True:
            await self._manager.leftovers.wait()
            self._manager.leftovers.clear()
            while left := self._left():
                for sandbox in left:
                    try:
                        await self._deps.network.detach(sandbox)
                    except PykubeletError as error:
                        _log.warning("a network address is still held", extra={"sandbox": sandbox, "error": str(error)})
                if self._left():
                    await self._deps.clock.sleep(backoff.next("network", self._deps.clock.monotonic()))

    def _left(self) -> list[SandboxID]:
        return [each for each in self._deps.network.held() if not self._uses_network(each)]

    def _uses_network(self, sandbox: SandboxID) -> bool:
        found = self._manager.known().get(sandbox)
        if found is None:
            return sandbox in self._spared
        return found.record.phase in (SandboxPhase.MAKING, SandboxPhase.READY)

    def _is_nobodys(self, sandbox: SandboxID) -> bool:
        return sandbox not in self._manager.known() and sandbox not in self._spared


def _folders(parent: Path) -> list[Path]:
    return list(parent.iterdir()) if parent.is_dir() else []
