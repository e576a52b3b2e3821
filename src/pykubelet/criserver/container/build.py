"""Builds the components of this package: one object for each CRI call, and what they share."""

from msgspec import Struct, field

from pykubelet.base.units import Seconds
from pykubelet.criserver.container.bundle.apparmor import AppArmorProfiles
from pykubelet.criserver.container.bundle.bundle_maker import BundleMaker
from pykubelet.criserver.container.checkpoint.checkpointer import ContainerCheckpointer
from pykubelet.criserver.container.checkpoint.restorer import Restorer
from pykubelet.criserver.container.container_interfaces import Directories, Images, Sandboxes
from pykubelet.criserver.container.containers_of_sandbox import ContainersOfSandbox
from pykubelet.criserver.container.create import ContainerCreator
from pykubelet.criserver.container.exec import ContainerCommands
from pykubelet.criserver.container.log import LogReopener
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.processes.watch import ContainerWatcher
from pykubelet.criserver.container.recover import ContainerRecovery
from pykubelet.criserver.container.remove import ContainerRemover
from pykubelet.criserver.container.start import ContainerStarter
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.container.stop import ContainerStopper
from pykubelet.criserver.container.update import ContainerUpdater
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.scope import ServerScope


class ContainerDeps(Struct, frozen=True, kw_only=True):
    """Components of the rest of the server that this package uses."""

    scope: ServerScope
    store: Store
    machine: Machine
    images: Images
    sandboxes: Sandboxes
    directories: Directories
    apparmor: AppArmorProfiles = field(default_factory=AppArmorProfiles)
    prelaunch_timeout: Seconds = 60.0
    """Longest wait of a pre-launched container for its start; then the launch is undone."""


class ContainerLifecycle(Struct, frozen=True, kw_only=True):
    """The calls that take a container from its creation to its removal."""

    creator: ContainerCreator
    starter: ContainerStarter
    stopper: ContainerStopper
    remover: ContainerRemover


class Checkpoints(Struct, frozen=True, kw_only=True):
    """The components that make checkpoints of containers, and restore containers from them."""

    checkpointer: ContainerCheckpointer
    restorer: Restorer


class ContainerComponents(Struct, frozen=True, kw_only=True):
    """The containers of the server, and the implementations of the calls on them."""

    table: ContainerTable
    lifecycle: ContainerLifecycle
    commands: ContainerCommands
    checkpoints: Checkpoints
    updater: ContainerUpdater
    log: LogReopener
    of_sandbox: ContainersOfSandbox
    recovery: ContainerRecovery


class _SharedComponents(Struct, frozen=True, kw_only=True):
    """Components that the implementations of several calls share."""

    table: ContainerTable
    records: ContainerRecords
    cleanup: Cleanup
    launcher: Launcher
    watcher: ContainerWatcher


def build_containers(deps: ContainerDeps) -> ContainerComponents:
    """Build and connect the components of this package."""
    machine, sandboxes, directories, scope = deps.machine, deps.sandboxes, deps.directories, deps.scope
    shared = _build_shared(
        scope,
        machine,
        store=deps.store,
        sandboxes=sandboxes,
        directories=directories,
        timeout=deps.prelaunch_timeout,
    )
    table, records, cleanup = shared.table, shared.records, shared.cleanup
    restorer = Restorer(table=table, images=deps.images, sandboxes=sandboxes, directories=directories, scope=scope)
    bundles = BundleMaker(
        table=table,
        sandboxes=sandboxes,
        images=deps.images,
        host=machine.host,
        apparmor=deps.apparmor,
        directories=directories,
        restorer=restorer,
    )
    lifecycle = _build_lifecycle(
        shared, machine, sandboxes=sandboxes, images=deps.images, bundles=bundles, restorer=restorer
    )
    stopper, remover = lifecycle.stopper, lifecycle.remover
    checkpointer = ContainerCheckpointer(table=table, sandboxes=sandboxes, directories=directories, scope=scope)
    return ContainerComponents(
        table=table,
        lifecycle=lifecycle,
        commands=ContainerCommands(table=table, sandboxes=sandboxes, directories=directories),
        checkpoints=Checkpoints(checkpointer=checkpointer, restorer=restorer),
        updater=ContainerUpdater(
            table=table, records=records, launcher=shared.launcher, host=machine.host, directories=directories
        ),
        log=LogReopener(table=table, directories=directories, clock=scope.clock),
        of_sandbox=ContainersOfSandbox(table=table, stopper=stopper, remover=remover, cleanup=cleanup),
        recovery=ContainerRecovery(
            records=records,
            sandboxes=sandboxes,
            watcher=shared.watcher,
            remover=remover,
            cleanup=cleanup,
            directories=directories,
            conmon=machine.conmon.path,
            scope=scope,
        ),
    )


def _build_shared(
    scope: ServerScope,
    machine: Machine,
    *,
    store: Store,
    sandboxes: Sandboxes,
    directories: Directories,
    timeout: Seconds,
) -> _SharedComponents:
    table = ContainerTable(monotonic=scope.clock.monotonic)
    records = ContainerRecords(stored=store.containers, table=table, scope=scope)
    cleanup = Cleanup(directories=directories, cgroups=machine.cgroups)
    launcher = Launcher(
        sandboxes=sandboxes,
        directories=directories,
        cleanup=cleanup,
        scope=scope,
        timeout=timeout,
    )
    watcher = ContainerWatcher(
        records=records,
        sandboxes=sandboxes,
        cleanup=cleanup,
        oom_kills=machine.oom_kills,
        directories=directories,
        scope=scope,
    )
    return _SharedComponents(table=table, records=records, cleanup=cleanup, launcher=launcher, watcher=watcher)


def _build_lifecycle(
    shared: _SharedComponents,
    machine: Machine,
    *,
    sandboxes: Sandboxes,
    images: Images,
    bundles: BundleMaker,
    restorer: Restorer,
) -> ContainerLifecycle:
    table, records, launcher, cleanup = shared.table, shared.records, shared.launcher, shared.cleanup
    stopper = ContainerStopper(table=table, launcher=launcher, cleanup=cleanup)
    remover = ContainerRemover(
        table=table, records=records, stopper=stopper, launcher=launcher, cleanup=cleanup, images=images
    )
    creator = ContainerCreator(
        table=table,
        records=records,
        sandboxes=sandboxes,
        images=images,
        bundles=bundles,
        remover=remover,
        launcher=launcher,
        restorer=restorer,
    )
    starter = ContainerStarter(
        table=table,
        records=records,
        sandboxes=sandboxes,
        launcher=launcher,
        cleanup=cleanup,
        oom_kills=machine.oom_kills,
        watcher=shared.watcher,
        restorer=restorer,
    )
    return ContainerLifecycle(creator=creator, starter=starter, stopper=stopper, remover=remover)
