"""The runtime server's real managers, store and calls on a simulated machine, with kills at any moment."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from pykubelet.base.concurrency import thread_calls
from pykubelet.base.units import Seconds
from pykubelet.criserver import processes
from pykubelet.criserver.compose.image_policy import ConfiguredPolicy
from pykubelet.criserver.compose.images import ImageComponents
from pykubelet.criserver.compose.live_configuration import LiveConfiguration
from pykubelet.criserver.compose.registries import ConfiguredRegistries
from pykubelet.criserver.config import Settings
from pykubelet.criserver.container import ContainerComponents
from pykubelet.criserver.machine import CgroupOomKills
from pykubelet.criserver.machine import Machine as MachineAccess
from pykubelet.criserver.main import Server, ServerParts
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.record_store.database import Database
from pykubelet.criserver.record_store.own_thread import OwnThread
from pykubelet.criserver.reload.config_reloader import ConfigInput, ConfigReloader
from pykubelet.criserver.runtimes import MonitoredRuntime, RuntimeHandlers
from pykubelet.criserver.sandbox import SandboxComponents
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.types import ContainerRecord, SandboxRecord, new_id
from pykubelet.linux import cgroups, pidfd, procfs, system
from pykubelet.linux.cgroups.oom import OomCounter
from pykubelet.linux.filesystems import mountinfo, mounts
from tests.fuzz.machine import (
    Machine,
    SimulatedCgroups,
    SimulatedConmon,
    SimulatedImages,
    SimulatedNamespaces,
    SimulatedNetwork,
    SimulatedPidFd,
    SimulatedRuntime,
)
from tests.fuzz.simulation import RUNS_IN, Dead, SimulatedClock, SimulatedLoop
from tests.unit.criserver.spec.given import HOST


@dataclass
class Life:
    """The life of one process of the server."""

    alive: bool = True
    store: Store | None = None
    main: "asyncio.Task[None] | None" = None


class Stage:
    """A machine and its current server process."""

    sandboxes: SandboxComponents
    containers: ContainerComponents

    def __init__(self, loop: SimulatedLoop, directory: Path) -> None:
        self.loop = loop
        self.settings = Settings(root=directory / "root", run=directory / "run")
        for each in (self.settings.root, self.settings.run):
            each.mkdir()
        self.machine = Machine(loop, self.settings.root, self.settings.run)
        self.namespaces = SimulatedNamespaces(self.machine)
        self.clock = SimulatedClock(loop)
        self.life = Life(alive=False)
        self.calls: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        """The server's calls by name."""
        self.streams: dict[str, Callable[[Any], AsyncIterator[Any]]] = {}
        self.requests: dict[str, type[Message]] = {}

    def unary(self, name: str, request: type[Message], function: Callable[[Any], Awaitable[Any]]) -> None:
        """Like ``Calls``, without gRPC."""
        self.calls[name], self.requests[name] = function, request

    def stream(self, name: str, request: type[Message], function: Callable[[Any], AsyncIterator[Any]]) -> None:
        """Like ``Calls``, without gRPC."""
        self.streams[name], self.requests[name] = function, request

    @property
    def store(self) -> Store:
        assert self.life.store is not None
        return self.life.store

    async def start(self) -> None:
        """Start a new server process. Its recovery must succeed."""
        for directory in (self.settings.bundles, self.settings.exits, self.settings.scratch):
            directory.mkdir(parents=True, exist_ok=True)
        self.life = life = Life()
        ready = asyncio.Event()
        life.main = asyncio.ensure_future(self._within(life, lambda: self._live(life, ready)))
        waiter = asyncio.ensure_future(ready.wait())
        await asyncio.wait({waiter, life.main}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if life.main.done():
            await life.main

    async def _live(self, life: Life, ready: asyncio.Event) -> None:
        life.store = await Store.open(self.settings.database, self.clock)
        try:
            async with asyncio.TaskGroup() as tasks:
                scope = ServerScope.of(tasks, self.clock)
                server = Server(self._parts(scope, life.store))
                await server.recover(self.clock.monotonic())
                self.sandboxes, self.containers = server.pods.sandboxes, server.pods.containers
                for group in server.calls():
                    group.register(cast(Calls, self))
                tasks.create_task(life.store.write_deferred(), name="store-retries")
                tasks.create_task(self.sandboxes.attachments.release_leftovers(), name="network-retries")
                tasks.create_task(scope.repairs.run(), name="repairs")
                ready.set()
        finally:
            if life.alive:
                await life.store.close()
            elif life.store._database._connection is not None:
                life.store._database._connection.close()

    def _parts(self, scope: ServerScope, store: Store) -> ServerParts:
        conmon = SimulatedConmon(self.machine, self.settings.exits)
        runtime = MonitoredRuntime(SimulatedRuntime(self.machine, self.settings.runtime_root("runc")), conmon)
        network = cast(Any, SimulatedNetwork(self.machine))
        return ServerParts(
            settings=self.settings,
            scope=scope,
            store=store,
            images=cast(ImageComponents, SimulatedImages(self.machine)),
            machine=MachineAccess(
                host=HOST,
                cgroups=cast(Any, SimulatedCgroups(self.machine)),
                handlers=RuntimeHandlers(runtimes={"runc": runtime}, default=self.settings.default_handler),
                conmon=conmon,
                oom_kills=CgroupOomKills(OomCounter(cgroups.detect()), systemd=False),
            ),
            namespaces=cast(PinnedNamespaces, self.namespaces),
            reload=LiveConfiguration(
                reloader=ConfigReloader(
                    given=ConfigInput.fixed(self.settings), parts=(), requested=(), clock=self.clock
                ),
                registries=ConfiguredRegistries(self.settings, self.clock),
                network=network,
                image_policy=ConfiguredPolicy(self.settings.image_policy_file),
            ),
        )

    async def _within(self, life: Life, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        RUNS_IN.set(life)
        await work()

    def call(self, work: Callable[[], Awaitable[object]], after: Seconds = 0.0) -> "asyncio.Task[object]":
        """Make a client's call to the current server process."""
        life = self.life

        async def served() -> object:
            await asyncio.sleep(after)
            RUNS_IN.set(life)
            return await work()

        return asyncio.ensure_future(served())

    async def end(self, *, killed: bool) -> None:
        """End the server: SIGKILL, or a regular shutdown."""
        life = self.life
        if killed:
            life.alive = False
        current = asyncio.current_task()
        own = {task for task in asyncio.all_tasks() if task is not current and task not in self.machine._work}
        for task in own if killed else [life.main]:
            if task is not None:
                task.cancel()
        await asyncio.gather(*own, return_exceptions=True)
        life.alive = False
        if not killed and life.main is not None and not life.main.cancelled():
            await life.main

    async def settled(self) -> None:
        """Wait until every call has ended, also those without a waiting client."""
        await asyncio.sleep(1.0)
        await self.machine.quiet()
        own = ("call-", "create-", "repair-")
        while calls := {task for task in asyncio.all_tasks() if task.get_name().startswith(own)}:
            await asyncio.wait(calls)
        await asyncio.sleep(1.0)
        await self.machine.quiet()

    async def rows(self) -> tuple[dict[str, SandboxRecord], dict[str, ContainerRecord]]:
        """The contents of the database."""
        sandboxes, containers = await self.store.load()
        return {each.id: each for each in sandboxes}, {each.id: each for each in containers}


@contextmanager
def staged(loop: SimulatedLoop, directory: Path) -> Iterator[Stage]:
    """Create a stage on which everything below the server is simulated."""
    stage = Stage(loop, directory)
    machine = stage.machine
    SimulatedPidFd.machine = machine
    numbers = iter(range(1 << 30))
    replaced: dict[object, object] = {
        pidfd.PidFd: SimulatedPidFd,
        processes.is_of_machine: lambda pid: True,
        mountinfo.is_mount_point: stage.namespaces.is_pinned,
        mounts.tmpfs: lambda *_, **__: None,
        new_id: lambda: f"{loop.chance.getrandbits(224):056x}{next(numbers):08x}",
    }
    transaction = Database._transaction

    def limited(database: Database, work: Callable[[Any], object]) -> object:
        def until_full(connection: Any) -> object:
            found = work(connection)
            if connection.in_transaction and loop.chance.random() < machine.full:
                raise OSError(28, "No space left on device")
            return found

        return transaction(database, until_full)

    with pytest.MonkeyPatch.context() as patch:
        for name, module in tuple(sys.modules.items()):
            if name.startswith("pykubelet.criserver"):
                for attribute, value in tuple(vars(module).items()):
                    with suppress(TypeError):
                        if value in replaced:
                            patch.setattr(module, attribute, replaced[value])
        for name in ("stat", "arguments", "children", "program_path"):
            patch.setattr(procfs, name, getattr(machine, name))
        patch.setattr(procfs, "program", lambda pid: None)
        patch.setattr(procfs, "cgroups", lambda pid: None)
        patch.setattr(procfs, "pids", lambda: [each.pid for each in machine.living()])
        patch.setattr(system, "boot_id", lambda: machine.boot_id)
        patch.setattr(Database, "_transaction", limited)
        # None waits for another: that could be one of a process that is dead.
        patch.setattr(thread_calls, "_PARALLEL", 1 << 20)
        patch.setattr(thread_calls._threads, "run", lambda work, **kind: loop.later(lambda: work()(), **kind))
        patch.setattr(OwnThread, "run", lambda thread, function: loop.in_thread_of(thread, function))
        yield stage


__all__ = ["Dead", "Stage", "staged"]
