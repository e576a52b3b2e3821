"""The composition root of the server: recovers the state of the previous server, and runs all components.

SIGTERM and SIGINT cancel them (``base/daemon/run_until_signal.py``), with a limit of time
(``base/daemon/shutdown.py``). Containers keep running.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base import tracing
from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.concurrency import blocking
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.watchdog import Watchdog
from pykubelet.base.units import Seconds
from pykubelet.criserver.compose.calls import CallDeps, build_calls
from pykubelet.criserver.compose.handlers import HandlerFactory
from pykubelet.criserver.compose.images import ImageComponents, open_images
from pykubelet.criserver.compose.live_configuration import LiveConfiguration, ReloadDeps, build_reload
from pykubelet.criserver.compose.open_machine import open_machine, open_namespaces, open_network, open_tools
from pykubelet.criserver.compose.pods import PodDeps, build_pods
from pykubelet.criserver.config import Settings
from pykubelet.criserver.config.metrics_address import parse_metrics_address
from pykubelet.criserver.conmon.find_and_kill import retire_commands
from pykubelet.criserver.container.plan import lifecycle as container
from pykubelet.criserver.directories import lock_directory, make_directory, make_traversable
from pykubelet.criserver.embedded import note_of, write_note
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.plan.start import COMMANDS, time_for_repairs, was_rebooted
from pykubelet.criserver.processes import reference
from pykubelet.criserver.programs import Marks, new_marks, wait_for_former_programs
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.reload.config_reloader import ConfigInput
from pykubelet.criserver.sandbox.plan import lifecycle as sandbox
from pykubelet.criserver.sandbox.sandbox_interfaces import PodNetwork
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.server import CriServer, Groups
from pykubelet.criserver.server.call_table import Observer
from pykubelet.criserver.server.cri_calls.streaming import ContainerExecutor
from pykubelet.criserver.shim.shim_log_files import ShimLogFiles
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.streaming import StreamingServer
from pykubelet.linux import system
from pykubelet.linux.memory_trim import trim_periodically

if TYPE_CHECKING:
    from pykubelet.criserver.metrics.server_metrics import ServerMetrics

_log = logging.getLogger(__name__)


async def run_criserver(
    given: ConfigInput, ending: Callable[[], None], notifier: Notifier, *, kept: bool = False
) -> None:
    """Recover, then serve until cancelled. Containers continue to run afterwards.

    ``given`` has the settings, and reads them again. ``ending`` is called as soon as the server begins to end, also by
    itself, so that the caller can limit the time. ``kept``: an agent started the server. ``notifier`` tells systemd
    when calls are answered. Conflict: another server uses the directories.
    """
    settings, clock = given.started, SystemClock()
    async with AsyncExitStack() as stack:
        _start_tracing(settings)
        stack.push_async_callback(tracing.stop)
        await _take_directories(settings, stack, kept=kept)
        begun = clock.monotonic()
        retired = await blocking.call_to_end("server", retire_commands, settings.scratch, clock.monotonic, COMMANDS)
        await _make_directories(settings)
        metrics = _metrics(settings, clock)
        images = await open_images(settings, clock, metrics.pulled if metrics is not None else None)
        store = await Store.open(settings.database)
        stack.push_async_callback(store.close)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_tell_end(ending), name="end")
            marks = await blocking.call_to_end("server", new_marks, settings.run, settings.scratch)
            scope = ServerScope.of(tasks, clock)
            parts = await _open_parts(
                given, stack, scope=scope, store=store, images=images, marks=marks, metrics=metrics
            )
            server = Server(parts)
            for directory in retired:
                remove = partial(blocking.call, "start-up", remove_any, str(directory))
                scope.repairs.add("files of calls", directory.name, remove)
            await wait_for_former_programs(settings.run, marks, clock)
            await server.recover(begun)
            await server.serve()
            notifier.ready()
            tasks.create_task(Watchdog(notifier, clock=clock).run(), name="watchdog")


async def _take_directories(settings: Settings, stack: AsyncExitStack, *, kept: bool) -> None:
    """Make the server's directories, lock them until the end, and note there which server uses them.

    Conflict: another server uses them.
    """
    for directory, way in ((settings.root, settings.root_filesystems), (settings.run, settings.sandboxes)):
        await blocking.call_to_end("server", make_traversable, directory, way)
        stack.callback(os.close, await blocking.call_to_end("server", lock_directory, directory))
    process = reference(os.getpid())
    assert process is not None, "this process runs"
    await blocking.call_to_end("server", write_note, settings.run, note_of(settings, process, kept))


async def _make_directories(settings: Settings) -> None:
    """Make the directories below those that are locked."""
    for directory in (settings.bundles, settings.exits, settings.mapped, settings.namespaces, settings.scratch):
        await blocking.call_to_end("server", make_directory, directory)


async def _open_parts(
    given: ConfigInput,
    stack: AsyncExitStack,
    *,
    scope: ServerScope,
    store: Store,
    images: ImageComponents,
    marks: Marks,
    metrics: "ServerMetrics | None",
) -> "ServerParts":
    """Open what the server uses of the machine until the end: namespaces, tools, handlers and the network."""
    settings = given.started
    namespaces = await blocking.call_to_end("server", open_namespaces, settings)
    tools = open_tools(settings, marks, metrics.runtime if metrics is not None else None)
    stack.callback(tools.oom_kills.close)
    await tools.shim_events.open()
    stack.push_async_callback(tools.shim_events.close)
    handlers = HandlerFactory(tools)
    stack.callback(handlers.close)
    machine, network = open_machine(settings, handlers), open_network(settings, marks, namespaces)
    reload = build_reload(
        ReloadDeps(given=given, clock=scope.clock, machine=machine, handlers=handlers, images=images, network=network)
    )
    return ServerParts(
        settings=settings,
        scope=scope,
        store=store,
        images=images,
        machine=machine,
        namespaces=namespaces,
        reload=reload,
        metrics=metrics,
    )


def _start_tracing(settings: Settings) -> None:
    """Record spans from now on, if the configuration says so. Raises Invalid if the SDK is not installed."""
    if settings.tracing.endpoint:
        found = tracing.trace_settings(settings.tracing.endpoint, settings.tracing.per_million)
        tracing.start(found, service="pykubelet-criserver", host=system.hostname())


def _metrics(settings: Settings, clock: Clock) -> "ServerMetrics | None":
    """The metrics, if they are served: their library takes memory."""
    if not settings.metrics_address:
        return None
    from pykubelet.criserver.metrics.server_metrics import ServerMetrics

    return ServerMetrics(clock)


async def _tell_end(ending: Callable[[], None]) -> None:
    """Wait to be cancelled, as all tasks are when one has failed; then call ``ending``."""
    try:
        await asyncio.Event().wait()
    finally:
        ending()


def _measured(parts: "ServerParts") -> PodNetwork:
    if parts.metrics is None:
        return parts.reload.network
    from pykubelet.criserver.metrics.measured_network import MeasuredNetwork

    return MeasuredNetwork(network=parts.reload.network, metrics=parts.metrics)


class ServerParts(Struct, frozen=True, kw_only=True):
    """Parts that a server is built of, which are open on this machine."""

    settings: Settings
    scope: ServerScope
    store: Store
    images: ImageComponents
    machine: Machine
    namespaces: PinnedNamespaces
    reload: LiveConfiguration
    """The configuration in force, and the networks."""
    metrics: "ServerMetrics | None" = None


class Server:
    """All components of one server."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self.pods = build_pods(
            PodDeps(
                settings=parts.settings,
                scope=parts.scope,
                store=parts.store,
                machine=parts.machine,
                namespaces=parts.namespaces,
                network=_measured(parts),
                images=parts.images.containers,
            )
        )
        self._streaming = StreamingServer(ContainerExecutor(self.pods.containers), parts.scope.clock)

    async def recover(self, begun: Seconds) -> None:
        """Reconcile the records with the machine, whatever happened to the previous server.

        ``begun``: when the start began, of the monotonic clock.
        """
        store, host, repairs = self._parts.store, self._parts.machine.host, self._parts.scope.repairs
        if not host.protects_from_oom:
            _log.warning(
                "oom_score_adj limited: without CAP_SYS_RESOURCE containers cannot be protected from the OOM killer",
                extra={"lowest_oom_score_adj": host.least_oom_score},
            )
        if host.apparmor and not host.apparmor_parser:
            _log.warning("AppArmor default profile unavailable: apparmor_parser is not installed")
        sandboxes, containers = await store.load()
        boot = system.boot_id()
        last = await store.exchange_fact("boot", boot)
        if was_rebooted(last, boot):
            _log.info("machine was rebooted: no container is running")
        sandboxes = [sandbox.of_boot(record, last) for record in sandboxes]
        containers = [container.of_boot(record, last) for record in containers]
        repairs.add("network", "configuration", self._parts.reload.network.start)
        of_sandboxes, of_containers = self.pods.sandboxes.recovery, self.pods.containers.recovery
        of_sandboxes.recover(sandboxes)
        await of_containers.recover(containers)
        protected = await of_containers.remove_orphans(containers, store.intact)
        rootfs_names = {*self.pods.containers.table.rootfs_names(), *await of_sandboxes.rootfs_names()}
        self._parts.images.recover(rootfs_names, protected, repairs)
        await of_sandboxes.clean_up(protected)
        await blocking.call("start-up", self.pods.containers.checkpoints.checkpointer.recover)
        await blocking.call("start-up", self.pods.containers.checkpoints.restorer.recover)
        await repairs.wait_for_first_attempts(time_for_repairs(self._parts.scope.clock.monotonic() - begun))

    async def serve(self) -> None:
        """Start all tasks of the server, which end with the task group; return when calls are answered."""
        scope, images = self._parts.scope, self._parts.images
        ready = asyncio.Event()
        scope.tasks.create_task(self._streaming.run(ready), name="streaming-server")
        await ready.wait()
        transfers = images.transfer_calls(self.pods.containers.table)
        server = CriServer(
            path=self._parts.settings.socket,
            runtime=self.calls(),
            images=(images.calls(scope.clock),),
            transfer=(transfers,),
            observer=self._observer(),
        )
        scope.tasks.create_task(server.run(), name="cri-server")
        scope.tasks.create_task(trim_periodically(scope.clock), name="upkeep")
        followers = {
            "network": self._parts.reload.network.run,
            "network-status": self._parts.reload.network.follow_status,
            "network-collection": self.pods.sandboxes.attachments.collect_garbage,
            "network-retries": self.pods.sandboxes.attachments.release_leftovers,
            "store-retries": self._parts.store.write_deferred,
            "repairs": scope.repairs.run,
            "configuration": self._parts.reload.reloader.run,
            "trash": images.trash.run,
            "interrupted-pulls": images.collect_interrupted,
            "shim-logs": ShimLogFiles(self._shim_directories, scope.clock).run,
        }
        for name, follower in followers.items():
            scope.supervise("server.parts", follower, name)
        await server.serving.wait()

    def _shim_directories(self) -> list[Path]:
        """The directories of the handlers that run shims."""
        return [self._parts.settings.runtime_root(name) for name in self._parts.machine.handlers.shims()]

    def _observer(self) -> Observer | None:
        """Begin to serve metrics, if that is configured; return what records the calls."""
        parts, address = self._parts, parse_metrics_address(self._parts.settings.metrics_address)
        if parts.metrics is None or address is None:
            return None
        from pykubelet.criserver.compose.metrics import CallObserver, Figures, metrics_server

        figures = Figures(settings=parts.settings, pods=self.pods, images=parts.images, repairs=parts.scope.repairs)
        parts.scope.supervise("server.metrics", metrics_server(address, parts.metrics, figures).run, "metrics")
        return CallObserver(
            metrics=parts.metrics,
            pods=self.pods,
            handlers=parts.machine.handlers,
            clock=parts.scope.clock,
        )

    def calls(self) -> Groups:
        """The groups of calls of RuntimeService."""
        parts = self._parts
        return build_calls(
            CallDeps(
                configuration=parts.reload,
                scope=parts.scope,
                machine=parts.machine,
                network_problem=parts.reload.network.problem,
                pods=self.pods,
                layers=parts.images.usage,
                trash=parts.images.trash,
                streaming=self._streaming,
            )
        )
