"""Pykubelet's own runtime server beside the agent: the default when no other runtime is named."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import load_settings
from pykubelet.criserver.embedded import RuntimeSupervisor, SupervisorConfig

_DIRECTORY = "criserver"


def embedded_server(
    file: Path | None, directories: tuple[Path, Path], cgroup_driver: str, flags: tuple[str, ...] = (), traces: str = ""
) -> SupervisorConfig:
    """Return the server for an agent with these directories (root, run); its configuration may override them.

    ``traces``: the collector to which the agent sends its spans, which gets those of the server, too.

    Invalid: its cgroup manager differs from the agent's cgroup driver.
    """
    root, run = (str(directory / _DIRECTORY) for directory in directories)
    defaults: dict[str, object] = {"root": root, "run": run, "cgroup_manager": cgroup_driver}
    if traces:
        defaults["tracing"] = {"endpoint": traces}
        flags = (*flags, "--tracing-endpoint", traces)
    settings = load_settings(file, defaults=defaults)
    if settings.cgroup_manager != cgroup_driver:
        raise Invalid(
            f"{file}: cgroup_manager is {settings.cgroup_manager}, but the agent's cgroupDriver is {cgroup_driver}; "
            "set both to the same, or leave cgroup_manager out"
        )
    return SupervisorConfig(settings, file, flags)


@contextlib.asynccontextmanager
async def supervised(server: SupervisorConfig) -> AsyncIterator[None]:
    """Start pykubelet's own server and keep it running within the block; it keeps running afterwards.

    Permanent: it cannot be started.
    """
    supervisor = RuntimeSupervisor(server, SystemClock())
    try:
        await supervisor.start()
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(supervisor.run(), name="runtime-server")
            yield
            keeping.cancel()
    finally:
        supervisor.close()
