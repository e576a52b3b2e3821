"""conmon as the log writer and attach server of a container that a shim runs.

conmon calls an OCI runtime's ``create`` with the container's streams. Here a shell stands for the OCI runtime: it
starts a process that does nothing but hold the ends of these pipes. The shim opens them by their names in /proc, as
FIFOs. So logs have the same form, back-pressure, rotation and attach socket as those of other containers, and they go
on while this server does not run. The holder is killed when the shim has written all output; conmon writes the rest
of its pipes, and ends.
"""

import asyncio
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import NotFound
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import Conmon, LaunchedContainer, LaunchParameters
from pykubelet.criserver.conmon.find_and_kill import noted_monitor, noted_number
from pykubelet.criserver.oci.fifo import SHELL
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.runtimes import Task, TaskStreams
from pykubelet.criserver.runtimes.monitored import end_monitor
from pykubelet.criserver.shim.task_client import FifoPaths
from pykubelet.linux import procfs

_WRITTEN: Final[Seconds] = 10.0
"""Time for conmon to write the rest of the output."""
_HOLDER: Final = 'exec 3<&0; HOLDS="$2" sleep infinity <&3 3<&- & echo $! > "$4"'
"""$2 is the bundle, $4 the PID file. A background process would get /dev/null as its stdin."""


class _Holder(Struct, frozen=True):
    """A shell that conmon runs instead of an OCI runtime."""

    path: str = SHELL
    systemd: bool = False
    keyrings: bool = False

    def monitor_arguments(self, bundle: Path) -> list[str]:
        return ["-c", _HOLDER]

    def expect_cgroup_migration(self) -> None:
        return None


class ShimLogs:
    """The conmons of a shim's tasks."""

    def __init__(self, conmon: Conmon) -> None:
        self._conmon = conmon

    async def open(self, task: Task, streams: TaskStreams) -> tuple[LaunchedContainer, FifoPaths]:
        """Start a conmon; returns it, with the holder's PID, and the FIFOs for the shim. Errors as of conmon's."""
        launched = await self._conmon.launch(
            LaunchParameters(
                container=task.id,
                bundle=task.bundle,
                log=streams.log,
                runtime=_Holder(),
                stdin=streams.stdin,
                stdin_once=streams.stdin_once,
            )
        )
        held = f"/proc/{launched.pid}/fd"
        return launched, FifoPaths(
            stdin=f"{held}/0" if streams.stdin else "",
            stdout=f"{held}/1",
            stderr="" if streams.terminal else f"{held}/2",
            terminal=streams.terminal,
        )

    async def close(self, task: Task) -> None:
        """Let conmon write the rest of the output and end; the shim must have closed its ends. Idempotent."""
        monitor = open_process(task.monitor) or open_process(noted_monitor(task.bundle, task.id))
        if monitor is None:
            return
        with monitor:
            holder = reference(noted_number(task.bundle / "pid"))
            facts = procfs.stat(holder.pid) if holder is not None else None
            process = open_process(holder) if facts is not None and facts.parent == monitor.pid else None
            if process is not None:
                with process:
                    try:
                        process.send_signal(9)
                    except NotFound:
                        pass
            try:
                async with asyncio.timeout(_WRITTEN):
                    await monitor.wait()
            except TimeoutError:
                await self.kill(task)

    async def kill(self, task: Task) -> None:
        """Kill conmon and the holder. Idempotent."""
        await end_monitor(self._conmon, task)
