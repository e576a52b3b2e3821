"""The composition root of the server: recovers the state of the previous server, and runs all components."""

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.clock import SystemClock
from pykubelet.base.supervise import supervise
from pykubelet.base.units import Seconds
from pykubelet.criserver.assembly import Machine, Pods, ServerContext, build_pods, open_machine
from pykubelet.criserver.config import Settings
from pykubelet.criserver.container import decide as container
from pykubelet.criserver.container.processes import end_commands
from pykubelet.criserver.directories import entries, lock_directory, make_directory, make_traversable
from pykubelet.criserver.image_wiring import open_images
from pykubelet.criserver.processes import reference
from pykubelet.criserver.programs import new_marks, wait_for_former_programs
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.sandbox import decide as sandbox
from pykubelet.criserver.server import CriServer, Groups
from pykubelet.criserver.server.containers import ContainerCalls
from pykubelet.criserver.server.events import EventCalls
from pykubelet.criserver.server.metrics import MetricCalls
from pykubelet.criserver.server.runtime import RuntimeCalls
from pykubelet.criserver.server.sandboxes import SandboxCalls
from pykubelet.criserver.server.stats import StatsCalls
from pykubelet.criserver.server.streaming import ContainerExecutor, StreamingCalls
from pykubelet.criserver.stats import StatsCollector
from pykubelet.criserver.stats.inspector import Inspector
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.store import Store
from pykubelet.criserver.streaming import StreamingServer
from pykubelet.criserver.supervisor import note_of, write_note
from pykubelet.linux import cgroups, memory, system
from pykubelet.linux.cgroups.counters import CgroupCounterReader
from pykubelet.linux.memory_trim import trim_periodically

_log = logging.getLogger(__name__)
_REPAIRS: Seconds = 3.0
"""How long a start waits for the first attempts of repairs."""


async def run_criserver(settings: Settings, ending: Callable[[], None], kept: bool = False) -> None:
    """Recover, then serve until cancelled. Containers continue to run afterwards.

    ``ending`` is called as soon as the server begins to end, also by itself, so that the caller can limit the time.
    ``kept``: an agent started the server. Conflict: another server uses the directories.
    """
    memory.limit_arenas()
    async with AsyncExitStack() as stack:
        for directory, way in ((settings.root, settings.root_filesystems), (settings.run, settings.sandboxes)):
            await blocking.call_to_end("server", make_traversable, directory, way)
            stack.callback(os.close, await blocking.call_to_end("server", lock_directory, directory))
        process = reference(os.getpid())
        assert process is not None, "this process runs"
        await blocking.call_to_end("server", write_note, settings.run, note_of(settings, process, kept))
        retired = await blocking.call_to_end("server", _retire_scratch, settings)
        for directory in (settings.bundles, settings.exits, settings.scratch):
            await blocking.call_to_end("server", make_directory, directory)
        clock = SystemClock()
        images = await open_images(settings, clock)
        store = await Store.open(settings.database)
        stack.push_async_callback(store.close)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_tell_end(ending), name="end")
            marks = await blocking.call_to_end("server", new_marks, settings.run, settings.scratch)
            context = ServerContext(settings, store, images, tasks, clock, Repairs(tasks, clock))
            server = Server(context, open_machine(settings, marks))
            for directory in retired:
                remove = partial(blocking.call, "start-up", remove_any, str(directory))
                context.repairs.add("files of calls", directory.name, remove)
            await wait_for_former_programs(settings.run, marks, clock)
            await server.recover()
            await server.serve()


async def _tell_end(ending: Callable[[], None]) -> None:
    """Wait to be cancelled, as all tasks are when one has failed; then call ``ending``."""
    try:
        await asyncio.Event().wait()
    finally:
        ending()


def _retire_scratch(settings: Settings) -> list[Path]:
    """Kill exec commands of the previous server; return the directories of its calls' files, which are stale."""
    containers = [path.name for path in entries(settings.bundles)]
    if os.path.lexists(settings.scratch):
        # An OCI runtime that has just started a command cannot write its pid file after this, and so ends the command.
        settings.scratch.rename(settings.scratch.with_name(f"{settings.scratch.name}.old-{secrets.token_hex(4)}"))
    old = list(settings.run.glob(f"{settings.scratch.name}.old*"))
    for directory in old:
        end_commands(directory, containers)
    return old


class Server:
    """All components of one server."""

    def __init__(self, context: ServerContext, machine: Machine) -> None:
        self._context = context
        self._machine = machine
        self._pods: Pods = build_pods(context, machine)
        self._streaming = StreamingServer(ContainerExecutor(self._pods.containers), context.clock)

    async def recover(self) -> None:
        """Reconcile the records with the machine, whatever happened to the previous server."""
        host, pods = self._machine.host, self._pods
        if host.least_oom_score > -1000:
            _log.warning(
                "oom_score_adj limited: without CAP_SYS_RESOURCE containers cannot be protected from the OOM killer",
                extra={"lowest_oom_score_adj": host.least_oom_score},
            )
        if host.apparmor and not host.apparmor_parser:
            _log.warning("AppArmor default profile unavailable: apparmor_parser is not installed")
        sandboxes, containers = await self._context.store.load()
        boot = system.boot_id()
        last = await self._context.store.exchange_fact("boot", boot)
        if last not in ("", boot):
            _log.info("machine was rebooted: no container is running")
        sandboxes = [sandbox.of_boot(record, last) for record in sandboxes]
        containers = [container.of_boot(record, last) for record in containers]
        repairs = self._context.repairs
        repairs.add("network", "configuration", self._machine.network.start)
        pods.sandbox_recovery.recover(sandboxes)
        await pods.recovery.run(containers)
        protected = await pods.recovery.remove_orphans(containers, self._context.store.intact)
        rootfs_names = {*pods.containers.rootfs_names(), *await pods.sandbox_recovery.rootfs_names()}
        self._context.images.recover(rootfs_names, protected, repairs)
        await pods.sandbox_recovery.clean_up(protected)
        await repairs.wait_for_first_attempts(_REPAIRS)

    async def serve(self) -> None:
        """Start all tasks of the server; they end with the task group."""
        tasks = self._context.tasks
        ready = asyncio.Event()
        tasks.create_task(self._streaming.run(ready), name="streaming-server")
        await ready.wait()
        images = self._context.images
        server = CriServer(self._context.settings.socket, self._calls(), (images.calls(),), (images.transfer_calls(),))
        tasks.create_task(server.run(), name="cri-server")
        tasks.create_task(trim_periodically(self._context.clock), name="upkeep")
        followers = {
            "network": self._machine.network.run,
            "network-retries": self._pods.sandbox_recovery.retry_network,
            "store-retries": self._context.store.write_deferred,
            "repairs": self._context.repairs.run,
        }
        for name, follower in followers.items():
            tasks.create_task(supervise(name, follower, clock=self._context.clock), name=name)

    def _calls(self) -> Groups:
        """Build the groups of calls of RuntimeService."""
        context, machine, pods = self._context, self._machine, self._pods
        stats = StatsCollector(machine.cgroups, context.images.usage, context.clock)
        counter_reader = CgroupCounterReader(cgroups.detect())
        inspector = Inspector(machine.cgroups, counter_reader, context.images.usage, context.clock)
        return (
            RuntimeCalls(
                context.settings, machine.network.problem, machine.runtimes, machine.host, context.repairs.unfinished
            ),
            SandboxCalls(pods.sandboxes, pods.containers, context.tasks, context.clock),
            ContainerCalls(pods.containers, pods.sandboxes, context.tasks),
            EventCalls(machine.events, pods.sandboxes, pods.containers),
            StatsCalls(stats, pods.containers, pods.sandboxes),
            MetricCalls(inspector, stats, pods.containers, pods.sandboxes),
            StreamingCalls(self._streaming, pods.containers, pods.sandboxes),
        )
