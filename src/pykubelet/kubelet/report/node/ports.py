"""What the node reporter needs of others."""

from typing import Protocol

from pykubelet.kubelet.report.node.types import NodeFacts


class NodeFactsReader(Protocol):
    """Reads the node's state; put together in ``kubelet/compose/cluster.py``."""

    async def read(self) -> NodeFacts:
        """The node now. Never raises for what is merely not well: that is a fault of the node."""

    def architecture(self) -> str:
        """The machine's, by its name in Kubernetes."""
