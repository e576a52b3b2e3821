"""StartContainer."""

import logging

from msgspec.structs import replace

from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.criserver.container.checkpoint.restorer import Restorer
from pykubelet.criserver.container.container_interfaces import Sandboxes
from pykubelet.criserver.container.plan.lifecycle import START_FAILED
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.processes.watch import ContainerWatcher
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.machine import OomKills
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.types import ContainerPhase, ContainerRecord
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class ContainerStarter:
    """Implementation of StartContainer: the transition from created to running."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        records: ContainerRecords,
        sandboxes: Sandboxes,
        launcher: Launcher,
        cleanup: Cleanup,
        oom_kills: OomKills,
        watcher: ContainerWatcher,
        restorer: Restorer,
    ) -> None:
        self._table = table
        self._records = records
        self._sandboxes = sandboxes
        self._launcher = launcher
        self._cleanup = cleanup
        self._oom_kills = oom_kills
        self._watcher = watcher
        self._restorer = restorer

    async def start(self, identity: str) -> None:
        """Start a container.

        NotFound; Permanent: it is not in the created phase, its sandbox is not ready, it was stopped meanwhile, the
        process whose PID namespace it shares has ended, or the OCI runtime failed. A start that fails after it began
        leaves the container exited with StartError.
        """
        container = self._table.get(identity)
        async with container.lock:
            record = container.record
            if record.phase is not ContainerPhase.CREATED:
                raise Permanent(f"container {record.id} is {record.phase.value}; only a created one can be started")
            # Nothing is awaited before the call is registered: a stop of the sandbox sees it, or it sees the stop.
            self._sandboxes.check_ready(record.sandbox_id)
            try:
                with container.in_progress.call(f"the start of container {record.id}"):
                    started = await self._run(container)
            except BaseException as failure:
                error = failure
                await shielded(lambda: self._fail(container, error))
                raise
            # To its end: a running container that is not watched could not be stopped or removed.
            await shielded(lambda: self._started(container, started))

    async def _run(self, container: Container) -> ContainerRecord:
        record = container.record
        if record.restore:
            # Restored processes run at once, before the check below.
            _check_pid_namespace(container)
        launched = await self._launcher.take(container)
        _check_pid_namespace(container)
        process, monitor = reference(launched.pid), reference(launched.monitor)
        pod_oom_kills = self._oom_kills.of_pod(record.cgroup)
        now = max(self._records.now(), record.created_at)
        if not record.restore:
            await self._launcher.runtime(container).start(replace(self._launcher.task(container), process=process))
        changes = {"process": process, "monitor": monitor, "started_at": now, "pod_oom_kills": pod_oom_kills}
        return container.moved(ContainerPhase.RUNNING, **changes)

    async def _started(self, container: Container, started: ContainerRecord) -> None:
        await self._records.note(container, started)
        self._records.publish(started, EventKind.STARTED, started.started_at)
        self._watcher.watch(container)
        if started.restore:
            await self._restorer.drop(started.id)

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
        now = max(self._records.now(), container.record.created_at)
        failed = {"exit_code": START_FAILED, "reason": "StartError", "message": str(error)}
        times = {"started_at": 0, "finished_at": now}
        await self._records.note(container, container.moved(ContainerPhase.EXITED, **failed, **times))
        container.ended.set()
        self._records.publish(container.record, EventKind.STOPPED, now)
        if container.record.restore:
            await self._restorer.drop(container.id)


def _check_pid_namespace(container: Container) -> None:
    """Permanent: the process whose PID namespace the bundle names has ended.

    Its PID may have been that of another process, even of the node, when the OCI runtime's ``create`` opened the path.
    If the process runs after the ``create``, it had the PID then.
    """
    process = container.record.namespace_process
    if process is None or is_alive(process):
        return
    options = container.config.linux.security_context.namespace_options
    owner = (
        f"the first process of container {options.target_id}"
        if options.pid == pb.TARGET
        else f"the infra process of sandbox {container.record.sandbox_id}"
    )
    raise Permanent(f"container {container.id} cannot join a PID namespace: {owner} (PID {process.pid}) has ended")
