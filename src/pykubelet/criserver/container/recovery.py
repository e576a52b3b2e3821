"""At start: records are compared with the machine, and made true again."""

import asyncio
import logging
from pathlib import Path

from msgspec.structs import replace

from pykubelet.criserver.conmon import read_exit
from pykubelet.criserver.container.decide import Recovery, Traces, move, recover
from pykubelet.criserver.container.manager import ContainerManager
from pykubelet.criserver.container.ports import ContainerDeps
from pykubelet.criserver.container.processes import monitors
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, ProcessRef

_log = logging.getLogger(__name__)


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

    async def remove_strays(self, known: set[ContainerID]) -> None:
        """Remove bundles of containers that no record speaks of (a damaged state file)."""
        folder = self._deps.folders.bundles
        for path in await asyncio.to_thread(lambda: list(folder.iterdir()) if folder.is_dir() else []):
            identity = ContainerID(path.name)
            if identity not in known:
                _log.warning("removing a container that nobody remembers", extra={"container": identity})
                await self._manager.purge_stray(identity)

    async def _apply(self, container: Container, what: Recovery, monitor: ProcessRef | None) -> None:
        record = container.record
        match what:
            case Recovery.KEEP:
                pass
            case Recovery.ADOPT:
                if record.phase is ContainerPhase.CREATED:
                    pid = _number(self._manager.bundle(record.id) / "pid")
                    started = {"process": reference(pid), "monitor": monitor, "started_at": _started(self._deps)}
                    await self._manager.put(container, move(record, ContainerPhase.RUNNING, **started))
                self._manager.watch(container)
            case Recovery.FINISH:
                exit_ = read_exit(self._deps.folders.exits, self._manager.bundle(record.id), record.id)
                await self._manager.finish(container, exit_)
            case Recovery.LOST:
                await self._manager.finish(container, None)
            case Recovery.UNSTART:
                if monitor is not None:
                    container.record = replace(record, monitor=monitor)
                await self._manager.revert_start(container)
                container.record = record
            case Recovery.REMOVE:
                await self._manager.purge(container)
        if what is not Recovery.KEEP:
            _log.info("recovered a container", extra={"container": record.id, "action": what.name.lower()})

    def _traces(self, record: ContainerRecord, running: dict[ContainerID, ProcessRef]) -> Traces:
        bundle = self._manager.bundle(record.id)
        state = self._manager.runtime_root(record) / record.id
        pid = _number(bundle / "pid")
        return Traces(
            alive=is_alive(record.process),
            monitored=record.id in running,
            exit_noted=(self._deps.folders.exits / record.id).exists(),
            start_begun=record.id in running or state.exists() or pid > 0,
            # The FIFO lies in the runtime's state folder until `start` opens it.
            program_runs=pid > 0 and _made(state) and not (state / "exec.fifo").exists(),
            bundle=(bundle / "config.json").exists(),
        )


def _made(state: Path) -> bool:
    """Whether an OCI runtime has written a container's state: runc in ``state.json``, crun in ``status``."""
    return any((state / name).exists() for name in ("state.json", "status"))


def _started(deps: ContainerDeps) -> int:
    # The call that started it was cut before it noted when; it was moments ago, in the life of the last server.
    return int(deps.clock.now() * 1e9)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
