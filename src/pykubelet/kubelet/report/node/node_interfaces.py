"""Interfaces that the node reporter needs from others."""

from typing import Protocol

from pykubelet.kubelet.report.node.node_types import NodeState


class NodeFactsReader(Protocol):
    """Reads the node's state; implemented in ``kubelet/compose/node/node_status.py``."""

    async def read(self) -> NodeState:
        """Read the node's facts. Problems of the machine do not raise: they become ``faults`` of the node."""

    def architecture(self) -> str:
        """Return the machine's architecture by its Kubernetes name (``amd64``)."""


class Startup(Protocol):
    """Measures the start-up of a new node (``report/metrics``). Only the first call of each method counts."""

    def registering(self) -> None:
        """Note that the node is about to be registered."""

    def registered(self) -> None:
        """Note that a new node was registered."""

    def ready(self) -> None:
        """Note that the API server has been told that the node is ready."""


class StorageState(Protocol):
    """Whether the CSINode object is there."""

    def fault(self) -> str | None:
        """Return why pods with CSI volumes cannot be scheduled to the node yet."""

    def searching(self) -> bool:
        """Return whether the agent has not ended its first search for the object."""
