"""Values of the node reporter: facts about the node, and the settings of its object."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct, field

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.models.core_v1 import NodeAddress, NodeRuntimeHandler, NodeSystemInfo, Taint
from pykubelet.models.scalars import Quantity

DECLARED_FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""Declared features, sorted (KEP-5328): the scheduler and the API server may rely on them.

The subset of the Go kubelet's features that this agent has.
"""


class NodeConfig(Struct, frozen=True):
    """Settings of the node's object."""

    name: str
    provider_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of ``--node-labels``, set when the node registers."""
    taints: tuple[Taint, ...] = ()
    """Taints set when the node registers, never again."""
    register: bool = True
    controller_attach: bool = True
    update_every: Seconds = 10.0
    report_every: Seconds = 300.0
    """An unchanged status is sent again after this many seconds."""
    max_images: int = 50
    """Maximum number of images reported; -1: all."""
    external_cloud: bool = False
    """A cloud controller completes the node: it removes a taint and sets the addresses."""
    given_ips: tuple[str, ...] = ()
    """Addresses of ``--node-ip``, without ``0.0.0.0`` and ``::``, passed to the cloud controller."""
    has_given_ips: bool = False
    """Whether there is a ``--node-ip``, be it ``0.0.0.0`` or ``::``: then it gives the first addresses."""


class Image(Struct, frozen=True):
    """An image that the runtime has."""

    names: tuple[str, ...]
    size: Bytes


class PressureConditions(Struct, frozen=True):
    """Resources that the node is short of."""

    memory: bool = False
    disk: bool = False
    pids: bool = False

    @classmethod
    def of(cls, conditions: AbstractSet[str]) -> "PressureConditions":
        """Return the pressure that the conditions of these types tell."""
        return cls(
            memory="MemoryPressure" in conditions, disk="DiskPressure" in conditions, pids="PIDPressure" in conditions
        )


class NodeState(Struct, frozen=True):
    """The node's present state."""

    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    addresses: tuple[NodeAddress, ...] | None
    """None: unknown at present, so the reported ones stay."""
    info: NodeSystemInfo
    images: tuple[Image, ...] = ()
    handlers: tuple[NodeRuntimeHandler, ...] = ()
    supplemental_groups_policy: bool | None = None
    faults: tuple[str, ...] = ()
    """Reasons why the node is not ready; empty: it is ready."""
    pressure: PressureConditions = PressureConditions()
    port: int = 0
    """The port of the kubelet API server; 0: none."""
    volumes_in_use: VolumesInUse = VolumesInUse()
