"""Our own runtime server beside the agent: the default when no other runtime is named."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import load_settings
from pykubelet.criserver.supervisor import RuntimeSupervisor, SupervisorConfig

_DIRECTORY = "criserver"


def embedded_server(
    file: Path | None, directories: tuple[Path, Path], cgroup_driver: str, flags: tuple[str, ...] = ()
) -> SupervisorConfig:
    """The server of an agent with these directories (root, run). Its own configuration file may place it elsewhere.

    Invalid: the file has another program make the cgroups than the agent has.
    """
    root, run = (str(directory / _DIRECTORY) for directory in directories)
    settings = load_settings(file, defaults={"root": root, "run": run, "cgroup_manager": cgroup_driver})
    if settings.cgroup_manager != cgroup_driver:
        raise Invalid(
            f"{file}: cgroup_manager is {settings.cgroup_manager}, but the agent's cgroupDriver is {cgroup_driver}; "
            "set both to the same, or leave cgroup_manager out"
        )
    return SupervisorConfig(settings, file, flags)


@contextlib.asynccontextmanager
async def beside(server: SupervisorConfig | None) -> AsyncIterator[None]:
    """Have the server run, if there is to be one, and keep it running; it runs on at the end.

    Permanent when it cannot be started.
    """
    if server is None:
        yield
        return
    supervisor = RuntimeSupervisor(server, SystemClock())
    try:
        await supervisor.start()
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(supervisor.run(), name="runtime-server")
            yield
            keeping.cancel()
    finally:
        supervisor.close()
