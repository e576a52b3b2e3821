"""Builds sandboxes and containers, which need each other: containers see sandboxes through ``SandboxViews``."""

from msgspec import Struct

from pykubelet.criserver.compose.container_images import ContainerImages
from pykubelet.criserver.config import Settings
from pykubelet.criserver.container import ContainerComponents, ContainerDeps, Directories, build_containers
from pykubelet.criserver.container.container_interfaces import ResourceClassFiles
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.sandbox import (
    Infra,
    InfraPrograms,
    SandboxComponents,
    SandboxDeps,
    SandboxLayout,
    SandboxTable,
    SandboxViews,
    build_sandboxes,
)
from pykubelet.criserver.sandbox.sandbox_interfaces import PodNetwork
from pykubelet.criserver.scope import ServerScope
from pykubelet.linux import selinux


class Pods(Struct, frozen=True, kw_only=True):
    """The components of sandboxes and containers."""

    sandboxes: SandboxComponents
    containers: ContainerComponents


class PodDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of sandboxes and containers on the rest of the server."""

    settings: Settings
    scope: ServerScope
    store: Store
    machine: Machine
    namespaces: PinnedNamespaces
    network: PodNetwork
    images: ContainerImages


def build_pods(deps: PodDeps) -> Pods:
    """Build and connect the components of sandboxes and containers."""
    settings, scope, machine = deps.settings, deps.scope, deps.machine
    table = SandboxTable(monotonic=scope.clock.monotonic)
    layout = SandboxLayout(namespaces=deps.namespaces, directory=settings.sandboxes)
    views = SandboxViews(table=table, layout=layout, machine=machine)
    containers = build_containers(
        ContainerDeps(
            scope=scope,
            store=deps.store,
            machine=machine,
            images=deps.images,
            sandboxes=views,
            directories=Directories(
                bundles=settings.bundles,
                exits=settings.exits,
                seccomp=settings.seccomp_root,
                root_filesystems=settings.root_filesystems,
                checkpoints=settings.root / "checkpoints",
                restores=settings.root / "restores",
                mapped=settings.mapped,
                cdi=settings.cdi_dirs,
                classes=ResourceClassFiles(
                    blockio=settings.blockio_config_file,
                    ignore_blockio=settings.ignore_blockio_not_enabled_errors,
                    ignore_rdt=settings.ignore_rdt_not_enabled_errors,
                ),
                may_restore=settings.enable_experimental_restore_via_create,
            ),
        )
    )
    programs = InfraPrograms(
        node=settings.infra,
        pause_image=settings.pause_image,
        label=selinux.container_labels().layers if machine.host.selinux else "",
        copies=settings.root / "infra",
    )
    sandboxes = build_sandboxes(
        SandboxDeps(
            scope=scope,
            store=deps.store,
            machine=machine,
            table=table,
            layout=layout,
            network=deps.network,
            containers=containers.of_sandbox,
            infra=Infra(machine=machine, images=deps.images, layout=layout, programs=programs),
        )
    )
    return Pods(sandboxes=sandboxes, containers=containers)
