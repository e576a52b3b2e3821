"""Reader of the node's current state for the Node object: machine, runtime and configuration, from several stages.

Without node mode it is used only if a client asks for the node, so it imports the node's package when it reads.
"""

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.host import NodeFacts, read_machine, reservations
from pykubelet.kubelet.actuate.host.addresses import NodeAddresses
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import server_enabled
from pykubelet.kubelet.types.resources.allocatable import node_allocatable, node_status_capacity, pod_limit, written
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.linux import system
from pykubelet.models.core_v1 import (
    NodeAddress,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeSwapStatus,
    NodeSystemInfo,
)
from pykubelet.models.quantity import Amount

if TYPE_CHECKING:
    from pykubelet.kubelet.report.node import Image, NodeState

_log = logging.getLogger(__name__)


class NodeHealth(Struct, frozen=True, kw_only=True):
    """Conditions that decide whether the node is ready."""

    conditions: Callable[[], RuntimeConditions]
    pleg_fault: Callable[[], str | None]
    shutdown_fault: Callable[[], str | None]


class NodeStatusDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `NodeStatusReader`."""

    settings: Callable[[], Settings]
    """Returns the settings in force."""
    node: NodeFacts
    image_cri: CriClient
    addresses: NodeAddresses
    health: NodeHealth
    pressure: Callable[[], AbstractSet[str]]
    """Returns the pressure conditions of the node."""
    volumes_in_use: Callable[[], VolumesInUse]
    clock: Clock


class NodeStatusReader:
    """The ``NodeFactsReader`` of the node reporter."""

    def __init__(self, deps: NodeStatusDeps) -> None:
        self._deps = deps
        self._images: tuple[Image, ...] = ()
        self._images_at: Seconds | None = None
        self._begun = deps.clock.monotonic()

    async def read(self) -> "NodeState":
        """Read the node's current state."""
        from pykubelet.kubelet.report.node import NodeState, PressureConditions

        deps, settings = self._deps, self._deps.settings()
        await self._list_images()
        capacity = await blocking.call("node", self._capacity)
        return NodeState(
            capacity=written(capacity),
            allocatable=written(node_allocatable(capacity, reservations(settings))),
            addresses=await self._addresses(),
            info=self._info(),
            images=self._images,
            handlers=tuple(
                NodeRuntimeHandler(
                    name=handler.name,
                    features=NodeRuntimeHandlerFeatures(
                        recursive_read_only_mounts=handler.recursive_read_only, user_namespaces=handler.user_namespaces
                    ),
                )
                for handler in deps.node.runtime.handlers
            ),
            supplemental_groups_policy=deps.node.runtime.supplemental_groups_policy,
            faults=self._faults(),
            pressure=PressureConditions.of(deps.pressure()),
            port=settings.config.port if server_enabled(settings) else 0,
            volumes_in_use=deps.volumes_in_use(),
        )

    def architecture(self) -> str:
        return system.architecture()

    async def _list_images(self) -> None:
        """List the images if that is due; after an error the former ones stay."""
        from pykubelet.kubelet.report.node import Image, images_are_due

        now = self._deps.clock.monotonic()
        if not images_are_due(self._images_at, now):
            return
        try:
            found = await self._deps.image_cri.list_images()
        except PykubeletError as error:
            _log.debug("node status: listing images failed", extra={"error": str(error)})
            return
        self._images_at = now
        self._images = tuple(Image((*image.repo_digests, *image.repo_tags), Bytes(image.size)) for image in found)

    def _capacity(self) -> dict[str, Amount]:
        settings = self._deps.settings()
        pods = pod_limit(settings.config.max_pods, settings.config.pods_per_core, system.cpu_count())
        return node_status_capacity(read_machine(settings), pods)

    async def _addresses(self) -> tuple[NodeAddress, ...] | None:
        ips = await self._deps.addresses.read()
        if ips is None:
            return None
        from pykubelet.kubelet.report.node import node_addresses

        return node_addresses(ips, self._deps.settings().node_name)

    def _info(self) -> NodeSystemInfo:
        node = self._deps.node
        swap = system.meminfo().swap_total
        return NodeSystemInfo(
            architecture=system.architecture(),
            boot_id=system.boot_id(),
            container_runtime_version=f"{node.runtime.name}://{node.runtime.version}",
            kernel_version=system.kernel_version(),
            kube_proxy_version="",
            kubelet_version=KUBERNETES_VERSION,
            machine_id=system.machine_id(),
            operating_system="linux",
            os_image=system.os_image(),
            swap=NodeSwapStatus(capacity=swap) if swap else None,
            system_uuid=system.system_uuid(),
        )

    def _faults(self) -> tuple[str, ...]:
        from pykubelet.kubelet.report.node import readiness_faults

        health = self._deps.health
        return readiness_faults(
            runtime=health.conditions(),
            pleg=health.pleg_fault(),
            shutdown=health.shutdown_fault(),
            age=self._deps.clock.monotonic() - self._begun,
        )
