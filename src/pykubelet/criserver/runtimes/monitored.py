"""An OCI runtime whose containers have a conmon each: it creates them, writes their logs and notes their exits."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.conmon import Conmon, ConmonControl, Exit, LaunchedContainer, LaunchParameters
from pykubelet.criserver.conmon.find_and_kill import kill_group, monitors, noted_monitor, noted_number
from pykubelet.criserver.oci import ExecResult, OciRuntime
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.runtimes.runtime_interfaces import FoundTask, Task, TaskStreams
from pykubelet.criserver.streaming.commands.oci_session import OciSession
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import StreamControl, Streams
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.pidfd import PidFd

_KILLED: Final[Seconds] = 30.0


class MonitoredRuntime:
    """A ``ContainerRuntime`` of conmon and an OCI runtime's program."""

    def __init__(self, oci: OciRuntime, conmon: Conmon) -> None:
        self.oci = oci
        self._conmon = conmon
        self.systemd = oci.systemd
        self.known = oci.known
        self.supports_prelaunch = oci.supports_prelaunch
        self.sandbox_tasks = False
        self.names_host = False

    async def features(self) -> Features:
        """The optional features of the OCI runtime."""
        return await self.oci.features()

    async def create(self, task: Task, streams: TaskStreams) -> LaunchedContainer:
        """Start a conmon, which calls the OCI runtime. Errors as of ``Conmon.launch``."""
        return await self._conmon.launch(
            LaunchParameters(
                container=task.id,
                bundle=task.bundle,
                log=streams.log,
                runtime=self.oci,
                terminal=streams.terminal,
                stdin=streams.stdin,
                stdin_once=streams.stdin_once,
                restore=task.restore,
            )
        )

    async def start(self, task: Task) -> None:
        """Let the program run."""
        await self.oci.start(task.id, None if task.hooks else task.process)

    async def wait(self, task: Task) -> Exit | None:
        """Wait for conmon, which ends after it has noted the exit. None: it was killed before that."""
        noted = None
        for ref in (task.monitor, task.process):
            # If conmon was killed, wait for the container's own process.
            process = open_process(ref)
            if process is not None:
                with process:
                    await process.wait()
            noted = await blocking.call(f"container/{task.id}", self._conmon.exit_of, task.id, task.bundle)
            if noted is not None:
                break
        return noted

    async def signal(self, task: Task, number: int) -> None:
        """Send a signal to the first process. NotFound: it has ended."""
        process = open_process(task.process)
        if process is None:
            raise NotFound(f"the first process of container {task.id} has ended")
        with process:
            process.send_signal(number)

    async def end_launch(self, task: Task) -> None:
        """Kill the conmon with what it has started."""
        await end_monitor(self._conmon, task)

    async def delete(self, task: Task, *, emptied: bool) -> None:
        """Remove the OCI runtime's state."""
        # Only the program runs the hooks.
        await self.oci.delete(task.id, emptied=emptied and not task.hooks)

    async def update(self, task: Task, resources: Mapping[str, object]) -> None:
        """Change the limits."""
        await self.oci.update(task.id, resources)

    async def execute(self, task: Task, process: Mapping[str, object], timeout: Seconds, output: Bytes) -> ExecResult:
        """Run a process in the container. Errors as of ``OciRuntime.execute``."""
        return await self.oci.execute(task.id, process, timeout, output)

    async def session(self, task: Task, process: Mapping[str, object], streams: Streams) -> ExecSession:
        """Prepare a process whose streams are a client's."""
        self.oci.expect_cgroup_migration()
        prepare, terminal = self.oci.exec_command, streams.terminal
        argv, command, directory = await blocking.call(f"exec/{task.id}", prepare, task.id, process, terminal)
        return OciSession(streams=streams, argv=argv, command=command, directory=directory)

    def control(self, task: Task) -> StreamControl:
        """Resize the terminal through conmon, which also closes stdin by itself."""
        return ConmonControl(task.bundle)

    async def found(self, task: Task, *, monitored: bool) -> FoundTask:
        """Examine the files of conmon and of the OCI runtime."""
        return await blocking.call(f"container/{task.id}", self._found, task, monitored)

    def _found(self, task: Task, monitored: bool) -> FoundTask:
        state, pid = self.oci.root / task.id, noted_number(task.bundle / "pid")
        return FoundTask(
            start_begun=monitored or state.exists() or pid > 0,
            # The FIFO exists in the runtime's state directory until `start` opens it.
            program_runs=pid > 0 and _made(state) and not self.oci.is_waiting(task.id),
            watched=monitored,
            exit_noted=(self._conmon.exits / task.id).exists(),
            pid=pid,
        )


async def end_monitor(conmon: Conmon, task: Task) -> None:
    """Kill a task's conmon, if it runs, with its children. Idempotent. Transient: it hangs in the kernel."""
    monitor = open_process(task.monitor) or open_process(await _find_monitor(conmon, task))
    if monitor is not None:
        with monitor:
            await _die(task, monitor)


async def _find_monitor(conmon: Conmon, task: Task) -> ProcessRef | None:
    """Find its conmon; in /proc if the call was ended before conmon wrote its PID file, or while it did."""

    def find() -> ProcessRef | None:
        if noted_number(task.bundle / "conmon.pid"):
            return noted_monitor(task.bundle, task.id)
        return monitors(conmon.path).get(task.id)

    return await blocking.call(f"container/{task.id}", find)


async def _die(task: Task, monitor: PidFd) -> None:
    try:
        async with asyncio.timeout(_KILLED):
            await kill_group(monitor)
    except TimeoutError as error:
        raise Transient(f"container {task.id}: conmon hangs in the kernel: it does not end after SIGKILL") from error


def _made(state: Path) -> bool:
    """Whether an OCI runtime has written a container's state: runc in ``state.json``, crun in ``status``."""
    return any((state / name).exists() for name in ("state.json", "status"))
