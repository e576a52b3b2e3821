"""Reader of the node's current state for the Node object: machine, runtime and configuration, from several stages.

Without node mode it is used only if a client asks for the node, so it imports the node's package when it reads.
"""

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.node import NodeFacts as Machine
from pykubelet.kubelet.actuate.node import read_machine, reservations
from pykubelet.kubelet.actuate.node.addresses import NodeAddresses
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.server import server_enabled
from pykubelet.kubelet.types.resources.allocatable import PODS, node_allocatable, node_capacity, pod_limit, written
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
from pykubelet.models.quantity import NANO, Amount

if TYPE_CHECKING:
    from pykubelet.kubelet.report.node import Image, NodeState, PressureConditions

_log = logging.getLogger(__name__)
_IMAGES_EVERY: Final = 60.0
_PLEG_PATIENCE: Final = 10.0
"""Time that a new agent has for its first list of pods before the missing list makes the node unready."""


class NodeHealth(Struct, frozen=True, kw_only=True):
    """What makes the node ready or not."""

    conditions: Callable[[], RuntimeConditions]
    pleg_fault: Callable[[], str | None]
    shutdown_fault: Callable[[], str | None]


class NodeStatusDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `NodeStatusReader`."""

    settings: Callable[[], Settings]
    """Returns the settings in force."""
    node: Machine
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
        from pykubelet.kubelet.report.node import NodeState

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
            faults=tuple(self._faults()),
            pressure=_pressure(deps.pressure()),
            port=settings.config.port if server_enabled(settings) else 0,
            volumes_in_use=deps.volumes_in_use(),
        )

    def architecture(self) -> str:
        return system.architecture()

    async def _list_images(self) -> None:
        """List images at most once a minute, since they seldom change."""
        now = self._deps.clock.monotonic()
        if self._images_at is not None and now - self._images_at < _IMAGES_EVERY:
            return
        try:
            found = await self._deps.image_cri.list_images()
        except PykubeletError as error:
            _log.debug("node status: listing images failed", extra={"error": str(error)})
            return
        self._images_at = now
        from pykubelet.kubelet.report.node import Image

        self._images = tuple(Image((*image.repo_digests, *image.repo_tags), Bytes(image.size)) for image in found)

    def _capacity(self) -> dict[str, Amount]:
        settings = self._deps.settings()
        pods = pod_limit(settings.config.max_pods, settings.config.pods_per_core, system.cpu_count())
        return {**node_capacity(read_machine(settings)), PODS: Amount(pods * NANO)}

    async def _addresses(self) -> tuple[NodeAddress, ...] | None:
        ips = await self._deps.addresses.read()
        if ips is None:
            return None
        found = [NodeAddress(type="InternalIP", address=ip) for ip in ips]
        return (*found, NodeAddress(type="Hostname", address=self._deps.settings().node_name))

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

    def _faults(self) -> list[str]:
        health = self._deps.health
        conditions = health.conditions()
        found = []
        if not conditions.runtime_ready:
            found.append(f"container runtime is down: {conditions.message or 'it is not responding'}")
        elif not conditions.network_ready:
            reason = conditions.message or "no network configuration yet"
            found.append(f"container runtime network not ready: NetworkReady=false {reason}")
        fault = health.pleg_fault()
        if fault and self._deps.clock.monotonic() - self._begun >= _PLEG_PATIENCE:
            found.append(f"PLEG is not healthy: {fault}")
        if going := health.shutdown_fault():
            found.append(going)
        return found


def _pressure(conditions: AbstractSet[str]) -> "PressureConditions":
    from pykubelet.kubelet.report.node import PressureConditions

    return PressureConditions(
        memory="MemoryPressure" in conditions, disk="DiskPressure" in conditions, pids="PIDPressure" in conditions
    )
