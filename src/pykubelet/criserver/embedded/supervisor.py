"""Starts, adopts and restarts the runtime server."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.proc import DetachedDaemon, detach
from pykubelet.base.units import MIB, Seconds
from pykubelet.criserver.config import Settings
from pykubelet.criserver.directories import make_traversable, set_aside_obstacle
from pykubelet.criserver.embedded.note import note_of, read_note
from pykubelet.criserver.embedded.plan.adoption import Step, step
from pykubelet.criserver.processes import is_alive, open_process
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.pidfd import PidFd
from pykubelet.linux.sockets import listener

_log = logging.getLogger(__name__)
_LOOK: Seconds = 0.02
_PATIENCE: Seconds = 10.0
_ENDING: Seconds = 30.0
_TRIES = 3
_MAX_LOG = 16 * MIB
_LOG_TAIL = 2048
_NO_PROCESS = ProcessRef(0, 0)


class SupervisorConfig(Struct, frozen=True):
    """The server to run."""

    settings: Settings
    file: Path | None = None
    """The configuration file that the settings were read from."""
    flags: tuple[str, ...] = ()
    """Additional flags of ``pykubelet criserver``."""

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.settings.root / "criserver.log"


class RuntimeSupervisor:
    """Supervisor of one server. When the supervisor ends, the server keeps running."""

    def __init__(self, config: SupervisorConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._server: _Server | None = None

    async def start(self) -> None:
        """Find or start a server, and wait until it listens. Permanent, with its last log line: it ended early."""
        for _ in range(_TRIES):
            self.close()
            self._server = await self._find()
            if await self._wait_until_listening(self._server):
                return
            # A server that found its directories locked has lost a race with another agent's server: adopt that one.
            if not await blocking.call("supervisor", self._is_server_running):
                break
        self.close()
        raise Permanent(
            f"the runtime server ended while starting: {await blocking.call('supervisor', self._last_log_line)} "
            f"(its log: {self._config.log}; --container-runtime-endpoint names another runtime)"
        )

    async def run(self) -> None:
        """Restart the server whenever it ends; runs until cancelled. Call ``start`` first."""
        backoff = Backoff(0.2, 30.0, factor=2.0, reset_after=120.0, jitter=0.1)
        guard = Guard("supervisor.server", self._clock.monotonic)
        while True:
            if self._server is not None:
                with guard.item("wait for its end"):
                    await self._server.process.wait()
                self.close()
            delay = backoff.next("criserver", self._clock.monotonic())
            _log.error(
                "runtime server ended: restarting",
                extra={"log": str(self._config.log), "delay_s": round(delay, 3)},
            )
            await self._clock.sleep(delay)
            with guard.item("start"):
                await self.start()

    def close(self) -> None:
        """Release the handle of the server, which keeps running."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _find(self) -> "_Server":
        """Return the running server, or start one."""
        settings = self._config.settings
        note = await blocking.call("supervisor", read_note, settings.run)
        process = open_process(note.process) if note else None
        what = step(note, process is not None, note_of(settings, _NO_PROCESS, True))
        if process is not None and note is not None:
            facts = {"pid": process.pid, "version": note.version}
            match what:
                case Step.ADOPT:
                    _log.info("runtime server found: adopted", extra=facts)
                    return _Server(process)
                case Step.TOLERATE:
                    _log.warning("runtime server found: using it, though its version or settings differ", extra=facts)
                    return _Server(process)
                case Step.REPLACE | Step.START:
                    _log.info("runtime server found: stopping it, since its version or settings differ", extra=facts)
                    with process:
                        await _end(process)
        child = await blocking.call_to_end("supervisor", self._spawn)
        _log.info("runtime server started", extra={"pid": child.pid, "log": str(self._config.log)})
        return _Server(PidFd(child.pid), child)

    def _is_server_running(self) -> bool:
        note = read_note(self._config.settings.run)
        return note is not None and is_alive(note.process)

    def _spawn(self) -> DetachedDaemon:
        config = self._config
        make_traversable(config.settings.root, config.log.parent)
        set_aside_obstacle(config.log)
        with contextlib.suppress(FileNotFoundError):
            if config.log.stat().st_size > _MAX_LOG:
                config.log.replace(config.log.with_suffix(".log.1"))
        config.log.touch(mode=0o600)
        settings = config.settings
        basics = ("--root", str(settings.root), "--run", str(settings.run), "--cgroup-manager", settings.cgroup_manager)
        file = ("--config", str(config.file)) if config.file else ()
        # -P: import no modules from the current directory.
        argv = [sys.executable, "-P", "-m", "pykubelet.cli", "criserver", *basics, *file, *config.flags, "--kept"]
        return detach(argv, log=config.log, env=_environment())

    async def _wait_until_listening(self, server: "_Server") -> bool:
        """Wait until the server listens, which recovery can delay; False when it ends before."""
        patience = self._clock.monotonic() + _PATIENCE
        while not server.process.exited():
            if await blocking.call("supervisor", listener, self._config.settings.socket) == server.process.pid:
                return True
            if self._clock.monotonic() > patience:
                _log.warning("runtime server not listening yet: waiting", extra={"log": str(self._config.log)})
                patience += _PATIENCE
            await self._clock.sleep(_LOOK)
        return False

    def _last_log_line(self) -> str:
        try:
            with self._config.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("error: ") if lines else "it gave no reason"


class _Server:
    """The process of a server, which may be our child or not."""

    def __init__(self, process: PidFd, child: DetachedDaemon | None = None) -> None:
        self.process = process
        self._child = child

    def close(self) -> None:
        self.process.close()
        if self._child is not None:
            self._child.forget()


async def _end(process: PidFd) -> None:
    """Stop a server; its containers keep running."""
    with contextlib.suppress(NotFound):
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_ENDING):
                await process.wait()
        except TimeoutError:
            process.send_signal(signal.SIGKILL)
            await process.wait()


def _environment() -> dict[str, str]:
    """Return this process's environment, with absolute directories in PYTHONPATH."""
    environment = dict(os.environ)
    if directories := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(
            str(Path(directory).absolute()) for directory in directories.split(os.pathsep)
        )
    return environment
