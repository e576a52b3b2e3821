"""Watches running containers until their exit, and records the exit."""

import logging

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.conmon import Exit
from pykubelet.criserver.container.container_interfaces import Directories, Sandboxes
from pykubelet.criserver.container.plan.lifecycle import UNKNOWN_EXIT, oom_killed, reason
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.machine import OomKills
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerPhase

_log = logging.getLogger(__name__)


class ContainerWatcher:
    """The transition from running to exited."""

    def __init__(
        self,
        *,
        records: ContainerRecords,
        sandboxes: Sandboxes,
        cleanup: Cleanup,
        oom_kills: OomKills,
        directories: Directories,
        scope: ServerScope,
    ) -> None:
        self._records = records
        self._sandboxes = sandboxes
        self._cleanup = cleanup
        self._oom_kills = oom_kills
        self._directories = directories
        self._scope = scope

    def watch(self, container: Container) -> None:
        """Watch a running container until its exit, in a task of the server. Returns at once."""
        self._scope.supervise("containers.exits", lambda: self._follow(container), f"container-{container.id[:13]}")

    async def finish(self, container: Container, noted: Exit | None) -> None:
        """Record its exit (None: unknown) and release what only a running one needs. The caller holds its lock."""
        if container.record.phase not in (ContainerPhase.RUNNING, ContainerPhase.CREATED):
            return
        record = container.record
        if noted is None:
            code, at, why = UNKNOWN_EXIT, max(self._records.now(), record.started_at), "Unknown"
            message = "exit code unknown: its monitor was killed, or the machine was rebooted"
        else:
            code, at, message = noted.code, max(noted.at, record.started_at), ""
            why = reason(code, await self._is_oom_killed(container, noted))
        ended = {"exit_code": code, "finished_at": at, "reason": why, "message": message}
        await self._records.note(container, container.moved(ContainerPhase.EXITED, **ended))
        await self._cleanup.release_mapped_mounts(container)
        container.ended.set()
        self._records.publish(container.record, EventKind.STOPPED, at)
        try:
            await self._cleanup.delete(container, self._sandboxes.runtime(record.sandbox_id))
            container.launched = False
        except (PykubeletError, OSError) as error:
            _log.warning(
                "cannot clean up an exited container: retrying when it is removed",
                extra={"container": record.id, "error": str(error)},
            )

    async def _follow(self, container: Container) -> None:
        runtime = self._sandboxes.runtime(container.record.sandbox_id)
        self._oom_kills.follow(container.record.cgroup)
        try:
            noted = await runtime.wait(container.task(self._directories.bundles))
            async with container.lock:
                await self.finish(container, noted)
        finally:
            self._oom_kills.forget(container.record.cgroup)

    async def _is_oom_killed(self, container: Container, noted: Exit) -> bool:
        record = container.record
        kills = await blocking.call(f"container/{record.id}", self._oom_kills.of_container, record.cgroup)
        pod_kills = self._oom_kills.of_pod(record.cgroup) - record.pod_oom_kills
        return oom_killed(noted.code, noted=noted.oom_killed, kills=kills, pod_kills=pod_kills, by_us=container.killed)
