"""Recovery of containers when the server starts: reconciles the records with the machine."""

import logging
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.conmon.find_and_kill import monitors, orphan_runs
from pykubelet.criserver.container.container_interfaces import Directories, Sandboxes
from pykubelet.criserver.container.plan.lifecycle import Recovery, Traces, recover
from pykubelet.criserver.container.processes.cleanup import Cleanup, noted_cgroup
from pykubelet.criserver.container.processes.watch import ContainerWatcher
from pykubelet.criserver.container.remove import ContainerRemover
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.directories import entries
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, ProcessRef, ProtectedIds, SandboxID

_log = logging.getLogger(__name__)
_OWNER = "start-up"
_MAX_SPEC = 16 * MIB
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class ContainerRecovery:
    """Recovery of containers before the first call is served; failed and long repairs go on in the background."""

    def __init__(
        self,
        *,
        records: ContainerRecords,
        sandboxes: Sandboxes,
        watcher: ContainerWatcher,
        remover: ContainerRemover,
        cleanup: Cleanup,
        directories: Directories,
        conmon: str,
        scope: ServerScope,
    ) -> None:
        """``conmon``: path of the conmon program."""
        self._table = records.table
        self._records = records
        self._sandboxes = sandboxes
        self._watcher = watcher
        self._remover = remover
        self._cleanup = cleanup
        self._directories = directories
        self._conmon = conmon
        self._clock = scope.clock
        self._repairs = scope.repairs

    async def recover(self, records: list[ContainerRecord]) -> None:
        """Add all records, and start a repair for each: adopt, finish or undo it."""
        running = await blocking.call(_OWNER, monitors, self._conmon)
        for record in records:
            container = self._table.add(record)
            self._repairs.add("container", record.id, partial(self._recover, container, record, running))

    async def _recover(
        self, container: Container, first: ContainerRecord, running: Mapping[ContainerID, ProcessRef]
    ) -> None:
        async with container.lock:
            record = container.record
            if container not in self._table or not (record is first or container.unfinished):
                return  # a client has changed it meanwhile
            task = container.task(self._directories.bundles)
            runtime = self._sandboxes.runtime(record.sandbox_id)
            found = await runtime.found(task, monitored=record.id in running)
            has_bundle = await blocking.call(f"container/{record.id}", (task.bundle / "config.json").exists)
            traces = Traces(
                alive=is_alive(record.process),
                monitored=found.watched,
                exit_noted=found.exit_noted,
                start_begun=found.start_begun,
                program_runs=found.program_runs,
                bundle=has_bundle,
            )
            await self._apply(container, recover(record, traces), found.pid, running.get(record.id))

    async def remove_orphans(self, records: list[ContainerRecord], intact: bool) -> ProtectedIds:
        """Remove leftovers of containers without a record; return the ids that must not be removed.

        A running container is never removed: its record was lost by damage, and its pod may still need it.
        If its spec cannot be read, any sandbox may be its own, and all are protected.
        ``intact``: the records are complete.
        """
        running = await blocking.call(_OWNER, monitors, self._conmon)
        # A running container protects its sandbox, whether that has a record or not.
        ids: set[str] = {*running, *(record.sandbox_id for record in records)}
        known = {record.id for record in records}
        complete = True
        for path in await blocking.call(_OWNER, entries, self._directories.bundles):
            identity = ContainerID(path.name)
            if identity in known:
                continue
            runs = identity in running or await blocking.call(_OWNER, orphan_runs, path, identity)
            if intact and not runs:
                self._repairs.add("leftover of an unknown container", identity, partial(self._purge_orphan, identity))
                continue
            found = await blocking.call(_OWNER, _ids_in, path / "config.json")
            complete = complete and found is not None
            ids |= {identity, *(found or ())}
            monitor = running[identity].pid if identity in running else 0
            _log.error(
                "container without a record: not removed; to remove it, kill its conmon and restart the server",
                extra={"container": identity, "runs": runs, "monitor": monitor, "bundle": str(path)},
            )
        return ProtectedIds(frozenset(ids), not (intact and complete))

    async def _purge_orphan(self, identity: ContainerID) -> None:
        _log.warning("removing leftovers of a container without a record", extra={"container": identity})
        bundle = self._directories.bundle(identity)
        cgroup = await blocking.call(f"container/{identity}", noted_cgroup, bundle)
        record = ContainerRecord(identity, "", SandboxID(""), b"", 0, "", "", "", cgroup, "")
        await self._remover.purge(Container(record, monotonic=self._clock.monotonic))

    async def _apply(self, container: Container, what: Recovery, pid: int, monitor: ProcessRef | None) -> None:
        """Apply the decision. The caller holds the container's lock. ``pid``: its first process."""
        record = container.record
        match what:
            case Recovery.KEEP:
                return
            case Recovery.ADOPT:
                if record.phase is ContainerPhase.CREATED:
                    # The call that started it was interrupted before it recorded the time: shortly before the
                    # previous server ended.
                    started = {"process": reference(pid), "monitor": monitor, "started_at": self._records.now()}
                    await self._records.put(container, container.moved(ContainerPhase.RUNNING, **started))
                self._watcher.watch(container)
            case Recovery.FINISH:
                runtime = self._sandboxes.runtime(record.sandbox_id)
                await self._watcher.finish(container, await runtime.wait(container.task(self._directories.bundles)))
            case Recovery.LOST:
                await self._watcher.finish(container, None)
            case Recovery.UNSTART:
                await self._cleanup.undo_launch(container, self._sandboxes.runtime(record.sandbox_id))
            case Recovery.REMOVE:
                await self._remover.purge(container)
        _log.info("container recovered", extra={"container": record.id, "action": what.name.lower()})


def _ids_in(file: Path) -> set[str] | None:
    """Find all ids in a container's spec; the sandbox's is in the paths of its namespaces. None: it is unreadable."""
    try:
        return set(_ID.findall(read_regular(file, _MAX_SPEC).decode(errors="replace")))
    except FileNotFoundError:
        return set()
    except OSError:
        return None
