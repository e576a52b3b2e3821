"""Values of the node reporter: what the node is, and what is configured about its object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pykubelet.base.units import Bytes, Seconds
from pykubelet.models.core_v1 import NodeAddress, NodeRuntimeHandler, NodeSystemInfo, Taint
from pykubelet.models.scalars import Quantity

DECLARED_FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""What the scheduler and the API server may rely on (KEP-5328), sorted; of those that the reference knows, ours."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Settings of the node's object."""

    name: str
    provider_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of ``--node-labels``, set when the node registers."""
    taints: tuple[Taint, ...] = ()
    """Set when the node registers, never again."""
    register: bool = True
    controller_attach: bool = True
    update_every: Seconds = 10.0
    report_every: Seconds = 300.0
    """An unchanged status is sent again this often."""
    max_images: int = 50
    """-1: all."""
    lease_seconds: int = 40
    external_cloud: bool = False
    """A controller of the cloud removes a taint when it has completed the node, and its addresses are its own."""
    given_ips: tuple[str, ...] = ()
    """Those of ``--node-ip``, which that controller is told."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the runtime."""

    names: tuple[str, ...]
    size: Bytes


@dataclass(frozen=True, slots=True)
class Pressure:
    """What the node runs short of."""

    memory: bool = False
    disk: bool = False
    pids: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The node as it is now."""

    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    addresses: tuple[NodeAddress, ...]
    info: NodeSystemInfo
    images: tuple[Image, ...] = ()
    handlers: tuple[NodeRuntimeHandler, ...] = ()
    supplemental_groups_policy: bool | None = None
    faults: tuple[str, ...] = ()
    """Why the node is not ready; empty: it is."""
    pressure: Pressure = Pressure()
    port: int = 0
    """Of the agent's server; 0: none."""
    volumes_in_use: tuple[str, ...] = ()
