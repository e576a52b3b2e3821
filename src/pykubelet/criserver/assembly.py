"""Builds the components of the server and connects them. Part of the composition root; no component imports it."""

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.cni import Network, NetworkConfig
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.config import CgroupManager, Settings
from pykubelet.criserver.config.machine import host_facts, kernel_cgroup
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container import ContainerDeps, ContainerManager
from pykubelet.criserver.container.interfaces import Directories
from pykubelet.criserver.container.recovery import ContainerRecovery
from pykubelet.criserver.directories import find_untraversable, make_directory
from pykubelet.criserver.events import EventHub
from pykubelet.criserver.image_wiring import ImageComponents
from pykubelet.criserver.netns import Kind, PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.programs import Marks
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.sandbox import SandboxDeps, SandboxDirectories, SandboxManager, SandboxRecovery
from pykubelet.criserver.spec import Host
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import SandboxID
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.linux.cgroups.oom import OomCounter

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What every component needs: settings, stores, the task group, the clock and the repairs."""

    settings: Settings
    store: Store
    images: ImageComponents
    tasks: asyncio.TaskGroup
    clock: Clock
    repairs: Repairs


@dataclass(frozen=True, slots=True)
class Machine:
    """What sandboxes and containers share: facts of the machine, and wrappers of the programs that do the work."""

    host: Host
    cgroups: CgroupDriver
    runtimes: dict[str, OciRuntime]
    conmon: Conmon
    network: Network
    events: EventHub = field(default_factory=EventHub)


@dataclass(frozen=True, slots=True)
class Pods:
    """The managers of sandboxes and containers, and their recoveries."""

    sandboxes: SandboxManager
    sandbox_recovery: SandboxRecovery
    containers: ContainerManager
    recovery: ContainerRecovery


def open_machine(settings: Settings, marks: Marks) -> Machine:
    """Inspect the machine. Permanent: a required program is not installed. Blocking."""
    host = host_facts()
    closed = find_untraversable(settings.root_filesystems, settings.sandboxes)
    if host.user_namespaces and closed is not None:
        _log.warning(
            "user namespaces disabled: others cannot traverse a directory; run chmod o+x on it",
            extra={"directory": str(closed)},
        )
    return Machine(
        host=replace(host, user_namespaces=host.user_namespaces and closed is None),
        cgroups=cgroups.open_driver(),
        runtimes=_runtimes(settings, marks),
        conmon=Conmon(settings.conmon, settings.exits),
        network=_network(settings, marks),
    )


def build_pods(context: ServerContext, machine: Machine) -> Pods:
    """Build the managers of sandboxes and containers, which need each other."""
    late = _Late()
    base = _sandbox_deps(context, machine, late)
    sandboxes = SandboxManager(base)
    deps = _container_deps(context, machine, sandboxes)
    containers = late.containers = ContainerManager(deps)
    return Pods(
        sandboxes,
        SandboxRecovery(sandboxes, base, context.repairs),
        containers,
        ContainerRecovery(containers, deps, context.repairs),
    )


class _Late:
    """Forward to the container manager, which is built after the sandbox manager that needs it."""

    containers: ContainerManager

    async def stop_all(self, sandbox: SandboxID) -> None:
        await self.containers.stop_all(sandbox)

    async def remove_all(self, sandbox: SandboxID) -> None:
        await self.containers.remove_all(sandbox)


def _sandbox_deps(context: ServerContext, machine: Machine, containers: _Late) -> SandboxDeps:
    settings = context.settings
    return SandboxDeps(
        store=context.store,
        namespaces=PinnedNamespaces(settings.namespaces),
        network=machine.network,
        containers=containers,
        images=context.images.containers,
        runtimes=machine.runtimes,
        default_handler=settings.default_handler,
        conmon=machine.conmon,
        cgroups=machine.cgroups,
        events=machine.events,
        host=machine.host,
        directories=SandboxDirectories(settings.sandboxes, settings.infra, settings.pause_image),
        tasks=context.tasks,
        clock=context.clock,
    )


def _container_deps(context: ServerContext, machine: Machine, sandboxes: SandboxManager) -> ContainerDeps:
    settings, oom = context.settings, OomCounter(cgroups.detect())
    # systemd removes a scope with its last process, and the kernel's OOM count with it; v2 counts in parents, too.
    systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
    return ContainerDeps(
        store=context.store,
        images=context.images.containers,
        sandboxes=sandboxes,
        runtimes=machine.runtimes,
        conmon=machine.conmon,
        cgroups=machine.cgroups,
        oom_kills=lambda cgroup: oom.kills(kernel_cgroup(cgroup)),
        pod_oom_kills=lambda cgroup: oom.kills(str(Path(kernel_cgroup(cgroup)).parent)) if systemd else 0,
        events=machine.events,
        host=machine.host,
        directories=Directories(
            settings.bundles, settings.exits, settings.seccomp_root, settings.mapped, settings.cdi_dirs
        ),
        tasks=context.tasks,
        clock=context.clock,
    )


def _network(settings: Settings, marks: Marks) -> Network:
    cni = settings.cni
    config = NetworkConfig(
        cni.conf_dir,
        settings.attachments,
        cni.default_bridge if cni.default_network else "",
        cni.default_subnet,
        settings.root / "ipam",
        lambda sandbox: PinnedNamespaces(settings.namespaces).path(sandbox, Kind.NETWORK),
        pod_addresses=cni.pod_addresses,
    )
    return Network(config, Plugins(cni.bin_dirs, cni.timeout, marks.environment))


def _runtimes(settings: Settings, marks: Marks) -> dict[str, OciRuntime]:
    found: dict[str, OciRuntime] = {}
    cgroup_migrations = cgroups.MigrationWarmUp(cgroups.detect())
    for name, handler in settings.handlers.items():
        root = settings.runtime_root(name)
        make_directory(root)
        try:
            systemd = settings.cgroup_manager is CgroupManager.SYSTEMD
            found[name] = OciRuntime(
                handler.path,
                root,
                settings.scratch,
                systemd=systemd,
                cgroup_migrations=cgroup_migrations,
                marks=marks.environment,
            )
        except NotFound as error:
            if name == settings.default_handler:
                raise Permanent(f"{error} (apt-get install {handler.path})") from error
            _log.info("runtime handler disabled: program not found", extra={"handler": name, "error": str(error)})
    return found
