"""Runs one agent: builds it (``compose/agent.py``), starts it, and runs its core tasks in one TaskGroup.

If one of them fails, all end and the process exits with a non-zero status. SIGTERM and SIGINT cancel them
(``base/daemon/run_until_signal.py``), with a limit of time (``base/daemon/shutdown.py``): statuses, events and the
history that are not written yet are written within a second. Pods keep running when the agent ends, and so does the
runtime server that it has started (``cli/embedded_server.py``).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

from pykubelet.base import tracing
from pykubelet.base.clock import SystemClock
from pykubelet.base.concurrency import blocking
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.watchdog import Watchdog
from pykubelet.kubelet.compose.agent import Agent, build_agent
from pykubelet.kubelet.compose.cgroup_driver import check_runtime_driver, with_runtime_driver
from pykubelet.kubelet.compose.cluster.entry import make_ready
from pykubelet.kubelet.compose.live_settings.held_ports import HeldPorts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.reload.config_input import ConfigInput

_log = logging.getLogger(__name__)


async def run_kubelet(settings: Settings, failed: Callable[[], None], *, given: ConfigInput, ports: HeldPorts) -> None:
    """Run the agent until cancelled; pods keep running.

    ``given`` reads the configuration again, and has the notifier that tells systemd when the local API answers.
    ``failed`` is called as soon as a core task has failed.

    Raises PykubeletError for an invalid configuration, and an ExceptionGroup if a core task fails.
    """
    async with AsyncExitStack() as stack:
        _start_tracing(settings)
        stack.push_async_callback(tracing.stop)
        settings, outdated = await with_runtime_driver(settings)
        clock = SystemClock()
        await make_ready(settings, clock)
        agent = build_agent(settings, clock, given, listen=ports.listen)
        if outdated:
            agent.recorders.metrics.calls.runtime_outdated()
        for close in agent.closers:
            stack.push_async_callback(close)
        await run_agent(agent, settings, failed=failed, notifier=given.notifier)


def _start_tracing(settings: Settings) -> None:
    """Record spans from now on, if the configuration says so. Raises Invalid without the SDK."""
    wanted = settings.config.tracing
    if wanted is not None:
        found = tracing.trace_settings(wanted.endpoint, wanted.sampling_rate_per_million)
        tracing.start(found, service="kubelet", host=settings.node_name)


async def run_agent(agent: Agent, settings: Settings, *, failed: Callable[[], None], notifier: Notifier) -> None:
    """Start the agent and run its core tasks until cancelled or one of them fails; see ``run_kubelet``."""
    await agent.start.run()
    with blocking.on_hung(agent.hung_calls):
        async with asyncio.TaskGroup() as group:
            for name, part in agent.parts().items():
                group.create_task(_run_part(name, part, failed), name=name)
            recorders = agent.recorders
            driver = check_runtime_driver(settings, recorders.clock, recorders.metrics.calls.runtime_outdated)
            group.create_task(_run_part("cgroup-driver", driver, failed), name="cgroup-driver")
            group.create_task(_run_part("watchdog", _serve(agent, notifier), failed), name="watchdog")


async def _serve(agent: Agent, notifier: Notifier) -> None:
    """Tell systemd when all servers serve, and then that the agent works, until cancelled."""
    await agent.servers.serving()
    notifier.ready()
    await Watchdog(notifier, agent.servers.fault, clock=agent.recorders.clock).run()


async def _run_part(name: str, part: Coroutine[None, None, None], failed: Callable[[], None]) -> None:
    """Run a core task; report its failure at once, since the others may take long to end."""
    try:
        await part
    except Exception as error:
        _log.error("core task failed; stopping the agent", extra={"part": name, "error": str(error)})
        failed()
        raise
