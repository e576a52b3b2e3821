"""Builds the components of this package: one object for each CRI call, and what they share."""

from msgspec import Struct

from pykubelet.criserver.machine import Machine
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.sandbox.attachments import Attachments
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.layout import SandboxLayout
from pykubelet.criserver.sandbox.recover import SandboxRecovery
from pykubelet.criserver.sandbox.remove import SandboxRemover
from pykubelet.criserver.sandbox.run import SandboxRunner
from pykubelet.criserver.sandbox.sandbox_interfaces import Containers, PodNetwork
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.sandbox.stop import SandboxStopper
from pykubelet.criserver.sandbox.update import SandboxUpdater
from pykubelet.criserver.sandbox.watch import InfraWatcher
from pykubelet.criserver.scope import ServerScope


class SandboxDeps(Struct, frozen=True, kw_only=True):
    """Components of the server that this package uses. The table and the layout exist before the containers do."""

    scope: ServerScope
    store: Store
    machine: Machine
    table: SandboxTable
    layout: SandboxLayout
    network: PodNetwork
    containers: Containers
    infra: Infra


class SandboxComponents(Struct, frozen=True, kw_only=True):
    """The sandboxes of the server, and the implementations of the calls on them."""

    table: SandboxTable
    layout: SandboxLayout
    attachments: Attachments
    runner: SandboxRunner
    stopper: SandboxStopper
    remover: SandboxRemover
    updater: SandboxUpdater
    recovery: SandboxRecovery


def build_sandboxes(deps: SandboxDeps) -> SandboxComponents:
    """Build and connect the components of this package."""
    table, layout, infra, containers = deps.table, deps.layout, deps.infra, deps.containers
    records = SandboxRecords(stored=deps.store.sandboxes, table=table, scope=deps.scope)
    watcher = InfraWatcher(table=table, records=records, infra=infra, scope=deps.scope)
    attachments = Attachments(
        network=deps.network,
        layout=layout,
        table=table,
        clock=deps.scope.clock,
        handler_networks=deps.machine.networks,
    )
    stopper = SandboxStopper(
        table=table, records=records, layout=layout, attachments=attachments, infra=infra, containers=containers
    )
    remover = SandboxRemover(
        table=table,
        records=records,
        layout=layout,
        attachments=attachments,
        infra=infra,
        containers=containers,
        stopper=stopper,
    )
    runner = SandboxRunner(
        table=table,
        records=records,
        layout=layout,
        machine=deps.machine,
        attachments=attachments,
        infra=infra,
        remover=remover,
        watcher=watcher,
    )
    recovery = SandboxRecovery(
        table=table,
        records=records,
        layout=layout,
        attachments=attachments,
        remover=remover,
        watcher=watcher,
        repairs=deps.scope.repairs,
    )
    return SandboxComponents(
        table=table,
        layout=layout,
        attachments=attachments,
        runner=runner,
        stopper=stopper,
        remover=remover,
        updater=SandboxUpdater(table=table, records=records),
        recovery=recovery,
    )
