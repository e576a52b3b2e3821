"""At start: records are compared with the machine, and made true again."""

import asyncio
import logging
import re
from pathlib import Path

from msgspec.structs import replace

from pykubelet.criserver.conmon import read_exit
from pykubelet.criserver.container.cleanup import noted_cgroup
from pykubelet.criserver.container.decide import Recovery, Traces, move, recover
from pykubelet.criserver.container.manager import ContainerManager
from pykubelet.criserver.container.ports import ContainerDeps
from pykubelet.criserver.container.processes import monitors, noted_number, stray_runs
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, ProcessRef, SandboxID, Spared

_log = logging.getLogger(__name__)
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class ContainerRecovery:
    """Runs once, before the first call is served."""

    def __init__(self, manager: ContainerManager, deps: ContainerDeps) -> None:
        self._manager = manager
        self._deps = deps

    async def run(self, records: list[ContainerRecord]) -> None:
        """Adopt, finish or undo each. A container that cannot be cleaned up now is left for its removal."""
        running = await asyncio.to_thread(monitors, self._deps.conmon.path)
        for record in records:
            container = self._manager.adopt(record)
            traces = await asyncio.to_thread(self._traces, record, running)
            await self._apply(container, recover(record, traces), running.get(record.id))

    async def remove_strays(self, records: list[ContainerRecord], sound: bool) -> Spared:
        """Remove what is left of containers that no record speaks of; returns what must be left alone.

        A container that runs is never removed here: its record was lost by damage, and its pod may still need it.
        ``sound``: the records are known in full.
        """
        folder = self._deps.folders.bundles
        running = await asyncio.to_thread(monitors, self._deps.conmon.path)
        # With what runs goes the sandbox it runs in, known or not.
        ids: set[str] = {*running, *(record.sandbox_id for record in records)}
        known = {record.id for record in records}
        for path in await asyncio.to_thread(lambda: list(folder.iterdir()) if folder.is_dir() else []):
            identity = ContainerID(path.name)
            if identity in known:
                continue
            runs = identity in running or await asyncio.to_thread(stray_runs, path, identity)
            if sound and not runs:
                _log.warning("removing what is left of an unknown container", extra={"container": identity})
                await self._purge_stray(identity)
                continue
            ids |= {identity, *await asyncio.to_thread(_ids_in, path / "config.json")}
            monitor = running[identity].pid if identity in running else 0
            _log.error(
                "a container that no record speaks of is left alone; if it is not wanted, kill its monitor and restart",
                extra={"container": identity, "runs": runs, "monitor": monitor, "bundle": str(path)},
            )
        return Spared(frozenset(ids), not sound)

    async def _purge_stray(self, identity: ContainerID) -> None:
        cgroup = await asyncio.to_thread(noted_cgroup, self._deps.folders.bundles / identity)
        record = ContainerRecord(identity, "", SandboxID(""), b"", 0, "", "", "", cgroup, "")
        await self._manager.purge(Container(record))

    async def _apply(self, container: Container, what: Recovery, monitor: ProcessRef | None) -> None:
        record = container.record
        if monitor is not None and what in (Recovery.UNSTART, Recovery.REMOVE):
            # It may not have noted its own number yet.
            container.record = replace(record, monitor=monitor)
        match what:
            case Recovery.KEEP:
                pass
            case Recovery.ADOPT:
                if record.phase is ContainerPhase.CREATED:
                    pid = noted_number(self._manager.bundle(record.id) / "pid")
                    started = {"process": reference(pid), "monitor": monitor, "started_at": _started(self._deps)}
                    await self._manager.put(container, move(record, ContainerPhase.RUNNING, **started))
                self._manager.watch(container)
            case Recovery.FINISH:
                exit_ = read_exit(self._deps.folders.exits, self._manager.bundle(record.id), record.id)
                await self._manager.finish(container, exit_)
            case Recovery.LOST:
                await self._manager.finish(container, None)
            case Recovery.UNSTART:
                await self._manager.revert_start(container)
                container.record = record
            case Recovery.REMOVE:
                await self._manager.purge(container)
        if what is not Recovery.KEEP:
            _log.info("recovered a container", extra={"container": record.id, "action": what.name.lower()})

    def _traces(self, record: ContainerRecord, running: dict[ContainerID, ProcessRef]) -> Traces:
        bundle = self._manager.bundle(record.id)
        state = self._manager.runtime_root(record) / record.id
        pid = noted_number(bundle / "pid")
        return Traces(
            alive=is_alive(record.process),
            monitored=record.id in running,
            exit_noted=(self._deps.folders.exits / record.id).exists(),
            start_begun=record.id in running or state.exists() or pid > 0,
            # The FIFO lies in the runtime's state folder until `start` opens it.
            program_runs=pid > 0 and _made(state) and not (state / "exec.fifo").exists(),
            bundle=(bundle / "config.json").exists(),
        )


def _ids_in(file: Path) -> set[str]:
    """All that looks like an id in a container's spec: that of its sandbox is in the paths of namespaces."""
    try:
        return set(_ID.findall(file.read_text(errors="replace")))
    except OSError:
        return set()


def _made(state: Path) -> bool:
    """Whether an OCI runtime has written a container's state: runc in ``state.json``, crun in ``status``."""
    return any((state / name).exists() for name in ("state.json", "status"))


def _started(deps: ContainerDeps) -> int:
    # The call that started it was cut before it noted when; it was moments ago, in the life of the last server.
    return int(deps.clock.now() * 1e9)
