"""Recovery of sandboxes when the server starts: reconciles the records with the machine."""

import logging
from functools import partial

from pykubelet.base.concurrency import blocking
from pykubelet.criserver.directories import entries
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.sandbox.attachments import Attachments
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.layout import SandboxLayout, owner_of
from pykubelet.criserver.sandbox.plan.lifecycle import adopted_phase
from pykubelet.criserver.sandbox.remove import SandboxRemover
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.sandbox.watch import InfraWatcher
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase, SandboxRecord
from pykubelet.linux import system
from pykubelet.linux.filesystems.mountinfo import is_mount_point

_log = logging.getLogger(__name__)
_OWNER = "start-up"


class SandboxRecovery:
    """Recovery in order: ``recover``, the containers' recovery, ``clean_up``."""

    def __init__(
        self,
        *,
        table: SandboxTable,
        records: SandboxRecords,
        layout: SandboxLayout,
        attachments: Attachments,
        remover: SandboxRemover,
        watcher: InfraWatcher,
        repairs: Repairs,
    ) -> None:
        self._table = table
        self._records = records
        self._layout = layout
        self._attachments = attachments
        self._remover = remover
        self._watcher = watcher
        self._repairs = repairs

    def recover(self, records: list[SandboxRecord]) -> None:
        """Add all records."""
        for record in records:
            self._table.add(record)

    async def rootfs_names(self) -> list[str]:
        """The snapshot names of the infra processes' root file systems."""
        places = await blocking.call(_OWNER, lambda: list(self._layout.directory.glob("*/infra")))
        return [place.parent.name for place in places]

    async def clean_up(self, protected: ProtectedIds) -> None:
        """Start the repairs of sandboxes: undo partial creations, finish removals, verify ready ones; and remove
        namespaces and files without a sandbox unless they are protected."""
        self._attachments.protect(protected)
        for sandbox in self._table:
            self._repairs.add("sandbox", sandbox.id, partial(self._repair, sandbox))
        for orphan in await blocking.call(_OWNER, self._layout.namespaces.known):
            if orphan not in self._table and orphan not in protected:
                release = partial(self._layout.namespaces.release, orphan)
                self._repairs.add("namespaces of an unknown sandbox", orphan, release)
        for directory in await blocking.call(_OWNER, entries, self._layout.directory):
            orphan = SandboxID(directory.name)
            if orphan not in self._table and orphan not in protected:
                remove = partial(blocking.call, owner_of(orphan), SandboxFiles(directory).remove)
                self._repairs.add("files of an unknown sandbox", orphan, remove)
        self._attachments.retry_later()

    async def verify(self, sandbox: Sandbox) -> None:
        """Check that a ready sandbox still has its namespaces, network and infra process, and watch it if so."""
        paths = self._layout.namespace_paths(sandbox).values()
        gone = await blocking.call(
            owner_of(sandbox.id), lambda: [str(path) for path in paths if not is_mount_point(path)]
        )
        # An interrupted stop on a full disk shows only in the records of the network.
        attached = self._attachments.complete(sandbox)
        infra = sandbox.record.infra
        alive = infra is None or is_alive(infra)
        complete = attached and not gone
        phase = adopted_phase(sandbox.record, boot=system.boot_id(), namespaces_there=complete, infra_alive=alive)
        if phase is SandboxPhase.STOPPED:
            facts = {"boot": sandbox.record.boot, "gone": gone, "attached": attached, "infra_alive": alive}
            extra = {"sandbox": sandbox.id, **facts}
            _log.warning("sandbox lost: reboot, or namespaces, network or infra process gone", extra=extra)
            await self._records.note(sandbox, sandbox.moved(phase, ips=()))
        else:
            self._watcher.watch(sandbox)

    async def _repair(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            if sandbox.id not in self._table:
                return  # a client has removed it meanwhile
            match sandbox.record.phase:
                case SandboxPhase.MAKING | SandboxPhase.REMOVING:
                    _log.info("undoing an interrupted creation or removal of a sandbox", extra={"sandbox": sandbox.id})
                    await self._remover.undo(sandbox)
                case SandboxPhase.READY:
                    await self.verify(sandbox)
                case SandboxPhase.STOPPED:
                    pass
