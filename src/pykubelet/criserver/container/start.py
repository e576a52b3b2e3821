"""StartContainer, and watching a running container until its exit."""

import logging

from pykubelet.base import blocking
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.base.shield import shielded
from pykubelet.base.supervise import supervise
from pykubelet.criserver.conmon import Exit, read_exit
from pykubelet.criserver.container.cleanup import Cleanup
from pykubelet.criserver.container.decide import START_FAILED, UNKNOWN_EXIT, move, oom_killed, reason
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.prelaunch import Launcher
from pykubelet.criserver.container.registry import Registry
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.events import EventKind
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.tasks import begin
from pykubelet.criserver.types import ContainerPhase, ContainerRecord

_log = logging.getLogger(__name__)


class Starter:
    """Implementation of StartContainer, and the transitions from created to running to exited."""

    def __init__(self, deps: ContainerDeps, registry: Registry, launcher: Launcher, cleanup: Cleanup) -> None:
        self._deps = deps
        self._registry = registry
        self._launcher = launcher
        self._cleanup = cleanup

    async def start(self, container: Container) -> None:
        """Start the container.

        Permanent: it is not in the created phase, its sandbox is not ready, it was stopped meanwhile, or the OCI
        runtime failed. A start that fails after it began leaves the container exited with StartError.
        """
        async with container.lock:
            record = container.record
            if record.phase is not ContainerPhase.CREATED:
                raise Permanent(f"container {record.id} is {record.phase.value}; only a created one can be started")
            # Nothing is awaited before the call is registered: a stop of the sandbox sees it, or it sees the stop.
            self._deps.sandboxes.view(record.sandbox_id)
            try:
                with container.in_progress.call(f"the start of container {record.id}"):
                    started = await self._run(container)
            except BaseException as failure:
                error = failure
                await shielded(lambda: self._fail(container, error))
                raise
            await self._registry.note(container, started)
            self._registry.publish(started, EventKind.STARTED, started.started_at)
        self.watch(container)

    def watch(self, container: Container) -> None:
        """Watch a running container until its exit, in a task of the server."""
        name = f"container-{container.id[:13]}"
        begin(self._deps.tasks, lambda: supervise(name, lambda: self._follow(container), clock=self._deps.clock), name)

    async def finish(self, container: Container, noted: Exit | None) -> None:
        """Record the exit (None: unknown) and release what only a running container needs."""
        async with container.lock:
            await self.finish_held(container, noted)

    async def finish_held(self, container: Container, noted: Exit | None) -> None:
        """Like ``finish``; the caller holds the container's lock."""
        if container.record.phase not in (ContainerPhase.RUNNING, ContainerPhase.CREATED):
            return
        record = container.record
        if noted is None:
            code, at, why = UNKNOWN_EXIT, max(self._registry.now(), record.started_at), "Unknown"
            message = "exit code unknown: conmon was killed, or the machine was rebooted"
        else:
            code, at, message = noted.code, max(noted.at, record.started_at), ""
            why = reason(code, await self._oom_killed(container, noted))
        ended = {"exit_code": code, "finished_at": at, "reason": why, "message": message}
        await self._registry.note(container, move(record, ContainerPhase.EXITED, **ended))
        await self._cleanup.release_mapped_mounts(container)
        container.ended.set()
        self._registry.publish(container.record, EventKind.STOPPED, at)
        try:
            await self._cleanup.delete(container, self._launcher.runtime(container))
            container.launched = False
        except (PykubeletError, OSError) as error:
            _log.warning(
                "cannot clean up an exited container: retrying when it is removed",
                extra={"container": record.id, "error": str(error)},
            )

    async def _run(self, container: Container) -> ContainerRecord:
        record = container.record
        launched = await self._launcher.take(container)
        process, monitor = reference(launched.pid), reference(launched.monitor)
        pod_oom_kills = self._deps.pod_oom_kills(record.cgroup)
        now = max(self._registry.now(), record.created_at)
        runtime = self._launcher.runtime(container)
        await runtime.start(record.id, None if container.config.CDI_devices else process)
        changes = {"process": process, "monitor": monitor, "started_at": now, "pod_oom_kills": pod_oom_kills}
        return move(record, ContainerPhase.RUNNING, **changes)

    async def _fail(self, container: Container, error: BaseException) -> None:
        """Undo a failed start and record StartError; not if the server is ending: it may be started again then."""
        try:
            await self._cleanup.undo_start(container, self._launcher.runtime(container))
        except (PykubeletError, OSError) as problem:
            # Retried when the container is removed.
            extra = {"container": container.id, "error": str(problem)}
            _log.warning("cannot undo a failed start: retrying when the container is removed", extra=extra)
        if not isinstance(error, Exception):
            return
        now = max(self._registry.now(), container.record.created_at)
        failed = {"exit_code": START_FAILED, "reason": "StartError", "message": str(error)}
        times = {"started_at": 0, "finished_at": now}
        await self._registry.note(container, move(container.record, ContainerPhase.EXITED, **failed, **times))
        container.ended.set()
        self._registry.publish(container.record, EventKind.STOPPED, now)

    async def _follow(self, container: Container) -> None:
        record = container.record
        for ref in (record.monitor, record.process):
            # conmon ends after it has written the exit; if it was killed, wait for the container's own process.
            process = open_process(ref)
            if process is not None:
                with process:
                    await process.wait()
            noted = await blocking.call(f"container/{record.id}", self._read_exit, record)
            if noted is not None:
                break
        await self.finish(container, noted)

    async def _oom_killed(self, container: Container, noted: Exit) -> bool:
        record = container.record
        kills = await blocking.call(f"container/{record.id}", self._deps.oom_kills, record.cgroup)
        pod_kills = self._deps.pod_oom_kills(record.cgroup) - record.pod_oom_kills
        return oom_killed(noted.code, noted=noted.oom_killed, kills=kills, pod_kills=pod_kills, by_us=container.killed)

    def _read_exit(self, record: ContainerRecord) -> Exit | None:
        directories = self._deps.directories
        return read_exit(directories.exits, directories.bundles / record.id, record.id)
