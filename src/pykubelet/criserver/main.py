"""The composition root of the server: builds every room from the settings and runs them together."""

import asyncio
import logging
import os
import shutil
from contextlib import AsyncExitStack

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.cni import Network, NetworkConfig
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.config.machine import host_facts
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container import ContainerDeps, ContainerManager
from pykubelet.criserver.container.ports import Folders
from pykubelet.criserver.container.processes import settle
from pykubelet.criserver.container.recovery import ContainerRecovery
from pykubelet.criserver.events import EventHub
from pykubelet.criserver.folders import lock_folder, make_folder
from pykubelet.criserver.image_rooms import ImageRooms, open_images
from pykubelet.criserver.images.registry import Host, RegistryClient
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.runtime import OWNER
from pykubelet.criserver.sandbox import SandboxDeps, SandboxFolders, SandboxManager
from pykubelet.criserver.server import CriServer, Groups
from pykubelet.criserver.server.containers import ContainerCalls
from pykubelet.criserver.server.events import EventCalls
from pykubelet.criserver.server.runtime import RuntimeCalls
from pykubelet.criserver.server.sandboxes import SandboxCalls
from pykubelet.criserver.server.stats import StatsCalls
from pykubelet.criserver.server.streaming import ContainerExecutor, StreamingCalls
from pykubelet.criserver.stats import StatsCollector
from pykubelet.criserver.store import Store
from pykubelet.criserver.streaming import StreamingServer
from pykubelet.criserver.types import SandboxID
from pykubelet.linux import cgroups, system
from pykubelet.linux.cgroups.oom import OomCounter

_log = logging.getLogger(__name__)


class Runtime:
    """All parts of one server, but for images, which are given."""

    def __init__(self, settings: Settings, store: Store, rooms: ImageRooms, tasks: asyncio.TaskGroup) -> None:
        clock = SystemClock()
        self._store = store
        self._rooms = rooms
        self._clock = clock
        self._settings = settings
        self.host = host_facts()
        self.events = EventHub()
        self.runtimes = _runtimes(settings)
        cni = settings.cni
        self.network = Network(
            NetworkConfig(
                cni.conf_dir,
                settings.attachments,
                cni.default_bridge if cni.default_network else "",
                cni.default_subnet,
                settings.root / "ipam",
            ),
            Plugins(cni.bin_dirs, cni.timeout, {OWNER: str(settings.scratch)}),
        )
        conmon = Conmon(settings.conmon, settings.exits)
        self.cgroups = cgroups.open_driver()
        self.sandboxes = SandboxManager(
            SandboxDeps(
                store=store,
                namespaces=PinnedNamespaces(settings.namespaces),
                network=self.network,
                containers=_Late(self),
                runtimes=self.runtimes,
                default_handler=settings.default_handler,
                conmon=conmon,
                cgroups=self.cgroups,
                events=self.events,
                host=self.host,
                folders=SandboxFolders(settings.sandboxes, settings.infra),
                tasks=tasks,
                clock=clock,
            )
        )
        deps = ContainerDeps(
            store=store,
            images=rooms.containers,
            sandboxes=self.sandboxes,
            runtimes=self.runtimes,
            conmon=conmon,
            cgroups=self.cgroups,
            oom_kills=OomCounter(cgroups.detect()).kills,
            events=self.events,
            host=self.host,
            folders=Folders(settings.bundles, settings.exits, settings.seccomp_root),
            tasks=tasks,
            clock=clock,
        )
        self.containers = ContainerManager(deps)
        self._recovery = ContainerRecovery(self.containers, deps)
        self.stats = StatsCollector(self.cgroups, rooms.layers, clock)
        self.streaming = StreamingServer(ContainerExecutor(self.containers), clock)

    async def recover(self) -> None:
        """Make records and machine agree, after whatever happened to the last server."""
        if self.host.least_oom_score > -1000:
            _log.warning(
                "without CAP_SYS_RESOURCE containers cannot be shielded from the OOM killer",
                extra={"lowest_oom_score_adj": self.host.least_oom_score},
            )
        await settle(str(self._settings.scratch), self._clock)
        sandboxes, containers = await self._store.load()
        if await self._store.exchange_fact("boot", system.boot_id()) not in ("", system.boot_id()):
            _log.info("the machine was restarted; no container runs any more")
        await self.sandboxes.recover(sandboxes)
        await self._recovery.run(containers)
        await self._recovery.remove_strays({record.id for record in containers})
        await self._rooms.recover(self.containers.rootfs_names())
        await self.network.start()
        await self.sandboxes.tidy()

    def calls(self, tasks: asyncio.TaskGroup) -> Groups:
        """The groups of calls of RuntimeService."""
        return (
            RuntimeCalls(self._settings, self.network.problem, self.runtimes),
            SandboxCalls(self.sandboxes, self.containers, tasks),
            ContainerCalls(self.containers, self.sandboxes, tasks),
            EventCalls(self.events, self.sandboxes, self.containers),
            StatsCalls(self.stats, self.containers, self.sandboxes),
            StreamingCalls(self.streaming, self.containers, self.sandboxes),
        )


class _Late:
    """The container manager, which is made after the sandbox manager that needs it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def stop_all(self, sandbox: SandboxID) -> None:
        await self._runtime.containers.stop_all(sandbox)

    async def remove_all(self, sandbox: SandboxID) -> None:
        await self._runtime.containers.remove_all(sandbox)


async def run_criserver(settings: Settings) -> None:
    """Recover, then serve until cancelled. Containers run on afterwards. Conflict: another server uses the folders."""
    async with AsyncExitStack() as stack:
        for folder in (settings.root, settings.run):
            await asyncio.to_thread(make_folder, folder)
            stack.callback(os.close, await asyncio.to_thread(lock_folder, folder))
        await asyncio.to_thread(shutil.rmtree, settings.scratch, True)
        for folder in (settings.bundles, settings.exits, settings.scratch):
            await asyncio.to_thread(make_folder, folder)
        clock = SystemClock()
        hosts = {name: Host(host.mirrors, host.plain_http) for name, host in settings.registries.items()}
        rooms = await open_images(settings, RegistryClient(hosts, clock), clock)
        store = await Store.open(settings.database)
        stack.push_async_callback(store.close)
        async with asyncio.TaskGroup() as tasks:
            runtime = Runtime(settings, store, rooms, tasks)
            await runtime.recover()
            ready = asyncio.Event()
            tasks.create_task(runtime.streaming.run(ready), name="streaming-server")
            await ready.wait()
            server = CriServer(settings.socket, runtime.calls(tasks), (rooms.calls(),))
            parts = {
                "cri-server": server.run(),
                "network": runtime.network.run(),
                "network-retries": runtime.sandboxes.retry_network(),
            }
            for name, part in parts.items():
                tasks.create_task(part, name=name)


def _runtimes(settings: Settings) -> dict[str, OciRuntime]:
    found: dict[str, OciRuntime] = {}
    for name, handler in settings.handlers.items():
        root = settings.runtime_root(name)
        make_folder(root)
        try:
            systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
            found[name] = OciRuntime(handler.path, root, settings.scratch, systemd=systemd)
        except NotFound as error:
            if name == settings.default_handler:
                raise Permanent(f"{error} (apt-get install {handler.path})") from error
            _log.info("a handler is left out", extra={"handler": name, "error": str(error)})
    return found
