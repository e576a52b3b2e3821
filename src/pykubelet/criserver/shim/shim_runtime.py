"""The ``ContainerRuntime`` of a shim: a sandbox has one shim, whose tasks are the sandbox itself and its containers.

The shim is started with the sandbox's own task (the pause process, or a virtual machine) and outlives this server,
which finds it again by the address in the task's directory. The shim remembers a task's exit until the task is deleted;
before that, the exit is stored. A shim that has died is noticed by its connection: then its program's command
``delete`` kills and removes the leftovers of each task, as in containerd.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.proc import ProgramTimeout
from pykubelet.base.text import printable
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.conmon import Exit, LaunchedContainer
from pykubelet.criserver.oci import ExecResult
from pykubelet.criserver.oci.command import in_container
from pykubelet.criserver.oci.exectree import kill_all
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.runtimes import FoundTask, Task, TaskStreams
from pykubelet.criserver.shim.conmon_log_writer import ShimLogs
from pykubelet.criserver.shim.shim_connections import ShimConnections
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.criserver.shim.shim_exec import ShimExec, end_execs, execute
from pykubelet.criserver.shim.shim_files import Mark, ShimNote, TaskFiles
from pykubelet.criserver.shim.shim_program import ShimProgram
from pykubelet.criserver.shim.shim_session import ShimControl, ShimSession
from pykubelet.criserver.shim.stray_shims import end_strays, shim_process
from pykubelet.criserver.shim.task_client import FifoPaths, ProcessEnd, TaskClient
from pykubelet.criserver.shim.ttrpc_client import ShimGone
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import StreamControl
from pykubelet.criserver.streaming.streaming_types import Streams as ClientStreams
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd
from pykubelet.pb import shim_task_pb2 as api

_log = logging.getLogger(__name__)
_KILLED: Final[Seconds] = 30.0
_ENDS: Final[Seconds] = 5.0
"""Time for a shim to end after its last task was deleted."""
_ANSWERS: Final[Seconds] = 30.0
"""A shim that has not answered a call within its deadline and does not tell its PID within this time counts as hung."""


class ShimParts(Struct, frozen=True, kw_only=True):
    """Dependencies of a shim's runtime."""

    program: ShimProgram
    connections: ShimConnections
    logs: ShimLogs
    events: ShimEvents
    oom_kills: Callable[[str], int]
    """Counts the kernel's OOM kills in a cgroup."""
    features: Callable[[], Awaitable[Features]]


class ShimRuntime:
    """The tasks of one handler's shims."""

    known = True
    sandbox_tasks = True

    def __init__(self, parts: ShimParts) -> None:
        self._parts = parts
        self._program = parts.program
        self.systemd = parts.program.systemd
        self.supports_prelaunch = parts.program.of_runc
        self.names_host = not parts.program.of_runc
        self.connections = parts.connections
        self._sigkilled: dict[str, Seconds] = {}
        """Time at which the shim took SIGKILL for a task the first time, by task id."""

    async def features(self) -> Features:
        """The optional features of the shim's containers."""
        return await self._parts.features()

    async def create(self, task: Task, streams: TaskStreams) -> LaunchedContainer:
        """Create a task; a sandbox's own starts the shim. Not interrupted: the shim would create it nevertheless."""
        return await shielded(lambda: self._create(task, streams))

    async def _create(self, task: Task, streams: TaskStreams) -> LaunchedContainer:
        files = self._files(task)
        await blocking.call_to_end(_owner(task), files.make, task.bundle)
        if task.of_sandbox:
            client, monitor, fifos = await self._begin(task), 0, FifoPaths()
        else:
            client = await self.connections.client(task.sandbox)
            kept, fifos = await self._parts.logs.open(task, streams)
            monitor = kept.monitor
        await blocking.call_to_end(_owner(task), files.mark, Mark.CREATED)
        pid = await client.create(task.id, str(files.directory), fifos, self._program.options)
        return LaunchedContainer(pid, monitor)

    async def start(self, task: Task) -> None:
        """Let the program run."""
        client = await self.connections.client(task.sandbox)
        await blocking.call_to_end(_owner(task), self._files(task).mark, Mark.STARTED)
        await client.start(task.id)

    async def wait(self, task: Task) -> Exit | None:
        """Wait for the task's end; then its exit is stored, the task deleted, and its log complete."""
        files = self._files(task)
        noted = await blocking.call(_owner(task), files.exit)
        if noted is None:
            ended = await self._ended(task)
            if ended is not None:
                oom_killed = await blocking.call(_owner(task), self._parts.oom_kills, task.cgroup) > 0
                noted = Exit(ended.code, ended.at, self._parts.events.take_oom(task.id) or oom_killed)
                with suppress(FileNotFoundError):  # it was removed meanwhile
                    await blocking.call_to_end(_owner(task), files.note_exit, noted)
        await self._forget(task)
        self._sigkilled.pop(task.id, None)
        await self._parts.logs.close(task)
        return noted

    async def signal(self, task: Task, number: int) -> None:
        """Send a signal to the first process. NotFound: it has ended, or the shim with it.

        A shim that answers neither SIGKILL nor anything else is killed, and one that hides the end of a task whose
        processes are gone: its containers could not be stopped otherwise.
        """
        try:
            await (await self.connections.client(task.sandbox)).kill(task.id, number)
        except ShimGone as error:
            raise NotFound(str(error)) from error
        except NotFound:
            if number == signal.SIGKILL:
                await self._check_end(task)
            raise
        except Transient:
            if number != signal.SIGKILL or not await self._killed_as_hung(task):
                raise
        else:
            if number == signal.SIGKILL:
                await self._check_end(task)

    async def end_launch(self, task: Task) -> None:
        """Kill the writer of the log; the task itself is removed by ``delete``."""
        await self._parts.logs.kill(task)

    async def delete(self, task: Task, *, emptied: bool) -> None:
        """Kill and remove a task; with a sandbox's own its shim ends."""
        files, own = self._files(task), task.of_sandbox
        if not await blocking.call(_owner(task), files.exist):
            await blocking.call_to_end(_owner(task), files.remove)
            return
        try:
            client = await self.connections.client(task.sandbox)
            try:
                ended = await self._kill(client, task)
                if ended:
                    with suppress(NotFound):
                        await client.delete(task.id)
            except (Permanent, Conflict, Invalid):
                if not own or await blocking.call(_owner(task), files.has, Mark.STARTED):
                    raise
                ended = False  # a shim that failed to create its task may know nothing of it
            if not ended:
                await self._remove_rest(task)
                with suppress(PykubeletError, TimeoutError):
                    async with asyncio.timeout(_ENDS):
                        await client.delete(task.id)
            if own:
                await self._end_shim(client, task)
        except ShimGone:
            await self._remove_unserved(task)
        except Transient:
            if not await self._killed_as_hung(task):
                raise
            await self._remove_unserved(task)
        if own:
            self.connections.drop(task.sandbox)
            await blocking.call_to_end(_owner(task), files.remove_socket)
        self._parts.events.take_oom(task.id)
        self._sigkilled.pop(task.id, None)
        await blocking.call_to_end(_owner(task), self._program.remove_state, task.id)
        await blocking.call_to_end(_owner(task), files.remove)

    async def update(self, task: Task, resources: Mapping[str, object]) -> None:
        """Change the limits of a running task."""
        await (await self.connections.client(task.sandbox)).update(task.id, resources)

    async def execute(self, task: Task, process: Mapping[str, object], timeout: Seconds, output: Bytes) -> ExecResult:
        """Run a command in a running task."""
        client = await self.connections.client(task.sandbox)
        return await execute(ShimExec(client=client, task=task, files=self._files(task)), process, timeout, output)

    async def session(self, task: Task, process: Mapping[str, object], streams: ClientStreams) -> ExecSession:
        """Prepare a command whose streams are a client's."""
        client = await self.connections.client(task.sandbox)
        command = ShimExec(client=client, task=task, files=self._files(task))
        return ShimSession(command=command, process=process, streams=streams)

    def control(self, task: Task) -> StreamControl:
        """Resize and end of input go to the shim, which has the terminal and holds the input open."""
        return ShimControl(partial(self.connections.client, task.sandbox), task.id)

    async def found(self, task: Task, *, monitored: bool) -> FoundTask:
        """Ask the shim, and kill commands of the former server."""
        files = self._files(task)
        exists, started = await blocking.call(_owner(task), lambda: (files.exist(), files.has(Mark.STARTED)))
        pid, runs = 0, started
        if started:
            with suppress(ShimGone, NotFound):
                client = await self.connections.client(task.sandbox)
                state = await client.state(task.id)
                pid, runs = state.pid, state.status != api.CREATED
                await end_execs(client, task, files)
        return FoundTask(start_begun=monitored or exists, program_runs=runs, watched=exists, exit_noted=False, pid=pid)

    async def _begin(self, task: Task) -> TaskClient:
        """Start the shim of a sandbox."""
        files = self._files(task)
        bootstrap = await self._program.start(task.id, files.directory, self._parts.events.socket)
        client = await self.connections.open(task.sandbox, bootstrap)
        process: ProcessRef | None = None
        with suppress(PykubeletError):
            process = await blocking.call(_owner(task), shim_process, await client.shim_pid(task.id), task.id)
        await blocking.call_to_end(_owner(task), files.note_shim, ShimNote(bootstrap, process))
        return client

    async def _ended(self, task: Task) -> ProcessEnd | None:
        """Wait for the end of a task, also of a shim that dies; None: the exit is unknown."""
        try:
            try:
                return await (await self.connections.client(task.sandbox)).wait(task.id)
            except ShimGone:
                # A shim that only closed the connection accepts a new one.
                return await (await self.connections.client(task.sandbox)).wait(task.id)
        except ShimGone:
            _log.warning("shim has ended: removing its container", extra={"container": task.id})
            return await self._remove_rest(task)
        except NotFound:
            return None

    async def _forget(self, task: Task) -> None:
        """Delete a task that has ended: then its output is written."""
        try:
            await (await self.connections.client(task.sandbox)).delete(task.id)
        except NotFound:
            return
        except ShimGone:
            await self._remove_rest(task)
        except PykubeletError as error:
            # The exit is known, and ``delete`` removes the task later; the container must not run for ever.
            _log.warning(
                "shim cannot delete a task that has ended: trying again later",
                extra={"container": task.id, "error": printable(str(error))},
            )

    async def _kill(self, client: TaskClient, task: Task) -> bool:
        """Kill a task that has not ended. False: it waits for its start, and the runtime cannot kill it (gVisor's)."""
        try:
            status = (await client.state(task.id)).status
            if status == api.STOPPED:
                return True
            try:
                await client.kill(task.id, signal.SIGKILL, everything=True)
            except (Permanent, Conflict, Invalid):
                if status == api.CREATED:
                    return False
            except PykubeletError:
                pass  # it may have just ended, by the removal of its cgroup
            async with asyncio.timeout(_KILLED):
                await client.wait(task.id)
            return True
        except NotFound:
            return True
        except TimeoutError as error:
            raise Transient(f"container {task.id} does not end after SIGKILL") from error

    async def _check_end(self, task: Task) -> None:
        """Kill the shim of a task that has had SIGKILL for long, and whose processes are gone, unless it has ended."""
        now = asyncio.get_running_loop().time()
        if now - self._sigkilled.setdefault(task.id, now) >= _KILLED and await self._is_gone(task):
            await self._kill_shim(task)

    async def _is_gone(self, task: Task) -> bool:
        """Whether no process of a task is left on this machine; False where that is unknown (virtual machines)."""
        if not self._program.of_runc:
            return False
        return not await blocking.call(_owner(task), lambda: any(in_container(pid, task.id) for pid in procfs.pids()))

    async def _killed_as_hung(self, task: Task) -> bool:
        """Kill the shim of a task if it answers nothing any more, or does not remove a task whose processes are gone.

        Returns whether it has ended.
        """
        try:
            async with asyncio.timeout(_ANSWERS):
                await (await self.connections.client(task.sandbox)).shim_pid(task.id)
            if not await self._is_gone(task):
                return False
        except (ShimGone, TimeoutError):
            pass
        except PykubeletError:
            return False
        return await self._kill_shim(task)

    async def _kill_shim(self, task: Task) -> bool:
        """Kill the shim of a task; whether it has ended."""
        note = await blocking.call(_owner(task), TaskFiles(self.connections.directory / task.sandbox).shim)
        process = open_process(note.process if note is not None else None)
        if process is None:
            # One that has never told its PID is known by its arguments.
            return await blocking.call_to_end(_owner(task), end_strays, task.sandbox)
        _log.warning("shim not responding: killing it with its containers", extra={"sandbox": task.sandbox})
        with process:
            return await _killed(process)

    async def _remove_unserved(self, task: Task) -> None:
        """Remove the leftovers of a task whose shim has died, and shims of its sandbox whose address is unknown."""
        if task.of_sandbox:
            await blocking.call_to_end(_owner(task), end_strays, task.id)
        await self._remove_rest(task)

    async def _remove_rest(self, task: Task) -> ProcessEnd | None:
        """Remove what a dead shim has left of a task; its exit, if the shim's program tells one."""
        files = self._files(task)
        if not await blocking.call(_owner(task), files.has, Mark.CREATED):
            return None
        try:
            return await self._program.delete(task.id, files.directory, self._parts.events.socket)
        except NotFound:
            return None  # its directory was removed meanwhile
        except (Permanent, ProgramTimeout) as error:
            # The shim may have died before it had the task. With cgroupfs, its cgroup is removed with all processes.
            _log.warning(
                "shim's program cannot remove a task: killing its processes",
                extra={"container": task.id, "error": printable(str(error))},
            )
            await blocking.call_to_end(_owner(task), kill_all, lambda pid: in_container(pid, task.id))
            return None

    async def _end_shim(self, client: TaskClient, task: Task) -> None:
        note = await blocking.call(_owner(task), self._files(task).shim)
        process = open_process(note.process if note is not None else None)
        with suppress(PykubeletError):  # it may end before it answers
            await client.shutdown(task.id)
        if process is None:
            await blocking.call_to_end(_owner(task), end_strays, task.id)
        else:
            with process:
                try:
                    async with asyncio.timeout(_ENDS):
                        await process.wait()
                except TimeoutError:
                    _log.warning("shim does not end: killing it", extra={"sandbox": task.id})
                    if not await _killed(process):
                        raise Transient(f"the shim of sandbox {task.id} does not end after SIGKILL") from None

    def _files(self, task: Task) -> TaskFiles:
        return TaskFiles(self.connections.directory / task.id)


def _owner(task: Task) -> str:
    return f"shim/{task.id}"


async def _killed(process: PidFd) -> bool:
    """Kill a process; whether it has ended in time."""
    with suppress(NotFound):
        process.send_signal(signal.SIGKILL)
    try:
        async with asyncio.timeout(_KILLED):
            await process.wait()
    except TimeoutError:
        return False
    return True
